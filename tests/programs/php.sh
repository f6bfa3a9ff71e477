# PHP with Debian's default extensions, which it opens with RTLD_DEEPBIND: each has the process's
# malloc all the same, in the interpreter's own heap and without it.
# needs: php php-cli
php -r 'echo 1;'
echo
php -m
cat > work.php <<'PHP'
<?php
$rows = [];
for ($i = 0; $i < 20000; $i++) {
    $rows["key $i"] = str_repeat(chr(97 + $i % 26), $i % 300);
}
ksort($rows);
echo count($rows), ' ', md5(serialize($rows)), ' ', strlen(gzcompress(json_encode($rows))), "\n";
echo preg_replace_callback('/\d+/', fn ($m) => $m[0] * 2, 'a1 b22 c333'), "\n";
echo bin2hex(iconv('UTF-8', 'UTF-16BE', 'Käse')), ' ', (new DateTimeImmutable('@86400'))->format('c'), "\n";
echo bin2hex(hash_pbkdf2('sha256', 'a', 'b', 100, 8, true)), ' ', bin2hex(sodium_crypto_generichash('x')), "\n";
echo FFI::cdef('int atoi(const char *);')->atoi('42'), ' ', openssl_digest('x', 'sha512'), "\n";
PHP
php work.php
USE_ZEND_ALLOC=0 php work.php
