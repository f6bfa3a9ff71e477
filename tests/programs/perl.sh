# perl: strings, hashes, regular expressions, sorting, closures.
# needs: perl perl
cat >t.pl <<'P'
use strict;
my ($state, %h, @list) = (1);
for my $i (0 .. 200000) {
    $state = ($state * 1103515245 + 12345) & 0x7fffffff;
    my $key = $state % 5000;
    $h{$key} .= chr(65 + $state % 26);
    $h{$key} = substr($h{$key}, 10) if length $h{$key} > 300;
    push @list, [$key, "value $i"] if $i % 10 == 0;
}
my $all = join ",", map { "$_=$h{$_}" } sort { $a <=> $b } keys %h;
print length($all), " ", unpack("%32C*", $all), "\n";
@list = sort { $a->[0] <=> $b->[0] || $a->[1] cmp $b->[1] } @list;
print "$list[0][1] $list[-1][1] ", scalar(@list), "\n";
my $n = () = $all =~ /([A-Z])\1/g;
print "$n\n";
my @f = map { my $x = $_; sub { $x * $_[0] } } 1 .. 1000;
my $sum = 0;
$sum += $_->(3) for @f;
print "$sum\n";
P
perl t.pl
perl -MPOSIX -MList::Util=sum -e 'print floor(sum(map { $_ ** 1.5 } 1..1000)), "\n"'
