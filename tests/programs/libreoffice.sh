# LibreOffice turns a document into a PDF and a spreadsheet into text.
# needs: soffice libreoffice-writer
# probe: libreoffice-calc ls /usr/lib/libreoffice/program/libsclo.so
# timeout: 600
{ for i in $(seq 300); do echo "<h2>Chapter $i</h2><p>$(seq -s ' ' 1 $((i % 60 + 5)))</p>"; done; } >doc.html
for i in $(seq 2000); do echo "$i,$((i * i % 97)),text $i"; done >sheet.csv
office() { soffice -env:UserInstallation="file://$PWD/profile" --headless --convert-to "$@" >>said 2>&1 || { tail -n 20 said >&2; exit 1; }; }
office pdf:writer_web_pdf_Export doc.html
office ods sheet.csv
rm sheet.csv
office csv sheet.ods
grep '^toft:' said >&2 || true
head -c 5 doc.pdf
echo
md5sum <sheet.csv
