<?php
// The page that Apache and php-fpm serve in the tests: what it prints depends on its number alone.
$number = (int) ($_GET['n'] ?? 0);
$rows = [];
for ($i = 0; $i < 500; $i++) {
    $rows[] = ['id' => $i, 'text' => str_repeat("row $i ", ($i * 7 + $number) % 40)];
}
usort($rows, fn ($a, $b) => strlen($b['text']) <=> strlen($a['text']) ?: $a['id'] <=> $b['id']);
$text = json_encode($rows);
preg_match_all('/row \d+/', $text, $found);
$packed = gzcompress($text);
echo "page $number: ", count($found[0]), ' ', md5($text), ' ', strlen(gzuncompress($packed)), "\n";
