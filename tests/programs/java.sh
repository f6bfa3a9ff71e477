# javac and java: the virtual machine's native allocations, its compiler threads, direct buffers.
# needs: java default-jdk-headless
# needs: javac default-jdk-headless
# timeout: 200
cat >T.java <<'J'
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;
import java.util.zip.*;

public class T {
    static long work(long seed) {
        Map<Integer, byte[]> live = new HashMap<>();
        long state = seed, sum = 0;
        for (int i = 0; i < 200000; i++) {
            state = state * 6364136223846793005L + 1442695040888963407L;
            byte[] old = live.put((int) (state >>> 52), new byte[(int) (state >>> 40 & 511)]);
            if (old != null) sum += old.length;
        }
        return sum;
    }
    public static void main(String[] a) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<Long>> all = new ArrayList<>();
        for (int i = 1; i <= 6; i++) { long n = i; all.add(pool.submit(() -> work(n))); }
        for (Future<Long> f : all) System.out.println(f.get());
        pool.shutdown();
        long direct = 0;
        for (int i = 0; i < 2000; i++) {
            ByteBuffer b = ByteBuffer.allocateDirect(1000 + i * 10);
            b.putLong(8, i);
            direct += b.getLong(8);
        }
        System.out.println(direct);
        String text = IntStream.range(0, 50000).mapToObj(i -> "n" + i * 31 % 1013).collect(Collectors.joining(","));
        Deflater d = new Deflater();
        d.setInput(text.getBytes());
        d.finish();
        byte[] out = new byte[text.length()];
        int n = d.deflate(out);
        Inflater inf = new Inflater();
        inf.setInput(out, 0, n);
        byte[] back = new byte[text.length()];
        System.out.println(inf.inflate(back) == text.length() && new String(back).equals(text));
        System.out.println(HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(back)));
    }
}
J
javac T.java
java -Xmx256m T
