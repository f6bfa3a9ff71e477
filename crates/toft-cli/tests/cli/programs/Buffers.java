// Memory outside of the heap of the JVM, by two methods.
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

public class Buffers {
    static List<ByteBuffer> kept = new ArrayList<>();

    static void readNames(int count) {
        for (int i = 0; i < count; i++) kept.add(ByteBuffer.allocateDirect(4000));
    }

    static void readLines(int count) {
        for (int i = 0; i < count; i++) kept.add(ByteBuffer.allocateDirect(9000));
    }

    public static void main(String[] arguments) throws Exception {
        for (int round = 0; round < 150; round++) {
            readNames(20);
            readLines(20);
        }
        System.out.println("ready");
        System.out.flush();
        System.in.read();
    }
}
