# ffmpeg: decodes, filters, scales and encodes with several threads; every frame's checksum is the same.
# needs: ffmpeg ffmpeg
# timeout: 600
ffmpeg -nostdin -v error -f lavfi -i "testsrc2=size=640x360:rate=25:duration=$((4 * ${TIMES:-1}))" -f lavfi -i "sine=frequency=440:duration=4" \
    -shortest -threads 2 -c:v mpeg4 -b:v 2M -flags +bitexact -c:a aac -b:a 96k -bitexact out.mkv
ffmpeg -nostdin -v error -threads 2 -i out.mkv -vf "scale=320:180,unsharp,hflip" -an -f framemd5 - | grep -v '^#' | md5sum
ffmpeg -nostdin -v error -i out.mkv -vn -f md5 -
