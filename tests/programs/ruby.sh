# Ruby: strings, hashes, threads, the compacting collector, fork.
# needs: ruby ruby
# timeout: 300
cat >t.rb <<'R'
require 'digest'
def work(seed)
  live, state = {}, seed
  120_000.times do |i|
    state = (state * 6364136223846793005 + 1442695040888963407) & 0xffffffffffffffff
    live[state >> 50] = "#{i}" * (1 + (state >> 40) % 60)
  end
  Digest::SHA256.hexdigest(live.keys.sort.map { |k| live[k] }.join(","))
end
puts work(1)
puts (1..4).map { |n| Thread.new { work(n) } }.map(&:value)
GC.start(full_mark: true)
GC.compact if GC.respond_to?(:compact)
puts (1..3).map { |n| r, w = IO.pipe; pid = fork { r.close; w.write(work(n)); w.close }; w.close; t = r.read; Process.wait(pid); t }
puts ObjectSpace.each_object(String).count > 100
R
ruby t.rb
