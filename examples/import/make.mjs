// Makes the sample files of this folder: `node make.mjs`, with LibreOffice (`soffice`) in the PATH.
// `node make.mjs rows 900000` writes the large one to the standard output instead.
//
// Workbooks, the list of contracts and the PDF are written by LibreOffice from the tables below. The others are written
// here, byte for byte as the named program saves such a table.
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const HERE = import.meta.dirname;

/** Rows of the large file: an order each, as a shop exports them. */
export function* rows(count) {
  yield "order,customer,amount\n";
  for (let n = 1; n <= count; n += 1) yield `${n},C${n % 9973},${n % 1000}.${n % 10}5\n`;
}

const WINDOWS_1252 = { "€": 0x80, "–": 0x96, "’": 0x92 };
const bytes1252 = (text) => Buffer.from([...text].map((c) => WINDOWS_1252[c] ?? c.charCodeAt(0)));
const lines = (rows, separator) => rows.map((cells) => `${cells.join(separator)}\r\n`).join("");

/** Excel, German: "CSV (Trennzeichen-getrennt)". */
function excelCsv() {
  const table = [
    ["Kunde", "Straße", "Rechnung", "Betrag"],
    ["Müller & Söhne", "Königsallee 1", "R-1001", "1.234,50"],
    ["Jäger GmbH", "Am Markt 2", "R-1002", "7,00"],
    ["Groß – Handel", "Zürcherstr. 3", "R-1003", "-89,90"],
    ["Café Noël", '"Rue de l’Été 4; 2. Stock"', "R-1004", "12.000,00"],
  ];
  return bytes1252(lines(table, ";"));
}

/** Excel: "Unicode Text (*.txt)". Cells with a comma are in quotes. */
function excelUnicode() {
  const table = [
    ["Artikel", "Bezeichnung", "Bestand", "Preis"],
    ["A-1", "Чай чёрный", "12", "4,50"],
    ["A-2", "日本茶", "0", "18,00"],
    ["A-3", '"Kaffee, gemahlen"', "140", "7,25"],
    ["A-4", '"Tasse ""Alpen"""', "7", "11,00"],
  ];
  return Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from(lines(table, "\t"), "utf16le")]);
}

/** Excel, English: "CSV UTF-8 (Comma delimited)". */
function excelUtf8() {
  const table = [
    ["id", "name", "email"],
    ["1", "Zoë Brontë", "zoe@example.com"],
    ["2", "Łukasz Żak", "lukasz@example.com"],
    ["3", '"Smith, Ann"', "ann@example.com"],
  ];
  return Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), Buffer.from(lines(table, ","))]);
}

/** SAP-like list viewer (ALV), "text with tabs": a title, technical names, a minus behind the number, ISO 8859-1. */
function sapList() {
  const named = ["MANDT", "BUKRS", "BELNR", "GJAHR", "BUDAT", "DMBTR", "WAERS", "SGTXT"];
  const names = [...named, ...Array.from({ length: 52 }, (_, n) => `ZZFELD${String(n + 1).padStart(2, "0")}`)];
  const row = (n) => [
    "100", "1000", String(1_900_000_000 + n), "2026", "31.12.2026", n % 2 ? `1.2${n}4,56` : `8${n},00-`, "CHF",
    n % 3 ? "Zahlung März" : "", ...Array.from({ length: 52 }, (_, at) => (at % 4 ? "" : `X${n}-${at + 1}`)),
  ];
  const table = [["Einzelposten Kreditoren"], ["Stand 31.12.2026"], [], names, ...[1, 2, 3, 4, 5, 6].map(row)];
  return Buffer.from(lines(table, "\t"), "latin1");
}

/** Google Sheets, "Comma-separated values": CR LF between rows, LF in a cell, none at the end. */
function googleSheets() {
  const table = [
    ["Timestamp", "Customer", "Comment", "Rating"],
    ["2026-03-01 09:15:00", "Ada", '"First line\nSecond line, with a comma"', "5"],
    ["2026-03-01 10:02:30", "Ben", '"He said ""fine""\n\n– and left"', "3"],
    ["2026-03-02 08:00:00", "Cy", "", "4"],
  ];
  return Buffer.from(lines(table, ",").replace(/\r\n$/, ""));
}

/** A program's log: one JSON object per line, not all with the same keys. */
function mixedKeys() {
  const events = [
    { id: 1, kind: "created", at: "2026-03-01T09:00:00Z", user: "ada" },
    { id: 2, kind: "paid", at: "2026-03-01T09:05:00Z", amount: 12.5, currency: "CHF" },
    { kind: "created", at: "2026-03-01T09:06:00Z", user: "ben" },
    { id: 4, kind: "shipped", at: "2026-03-02T07:00:00Z", parcel: { carrier: "Post", weight_kg: 1.2 }, tags: ["fragile"] },
    { at: "2026-03-02T08:00:00Z", id: 5, kind: "returned", amount: null },
  ];
  return events.map((event) => `${JSON.stringify(event)}\n`).join("");
}

// Tables for LibreOffice, as a flat document. A cell is a text, a number, a date (`{ date }`), a sum (`{ sum, value }`),
// or a text over several columns (`{ over, text }`).
const xml = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;");
function cell(content) {
  if (typeof content === "number") {
    return `<table:table-cell table:style-name="n" office:value-type="float" office:value="${content}"/>`;
  }
  if (typeof content === "string") {
    return content && `<table:table-cell office:value-type="string"><text:p>${xml(content)}</text:p></table:table-cell>` || "<table:table-cell/>";
  }
  if (content.date) {
    return `<table:table-cell table:style-name="d" office:value-type="date" office:date-value="${content.date}"/>`;
  }
  if (content.sum) {
    return `<table:table-cell table:style-name="n" table:formula="of:=SUM(${content.sum})" office:value-type="float" office:value="${content.value}"/>`;
  }
  return `<table:table-cell table:number-columns-spanned="${content.over}" office:value-type="string"><text:p>${xml(content.text)}</text:p></table:table-cell>${"<table:covered-table-cell/>".repeat(content.over - 1)}`;
}
function flatDocument(sheets) {
  const table = ([name, rows]) =>
    `<table:table table:name="${name}">${rows.map((cells) => `<table:table-row>${cells.map(cell).join("")}</table:table-row>`).join("")}</table:table>`;
  const space = (name, path) => ` xmlns:${name}="urn:oasis:names:tc:opendocument:xmlns:${path}:1.0"`;
  const spaces = space("office", "office") + space("table", "table") + space("text", "text") + space("style", "style") + space("number", "datastyle") + ' xmlns:of="urn:oasis:names:tc:opendocument:xmlns:of:1.2"';
  return `<?xml version="1.0" encoding="UTF-8"?>
<office:document${spaces} office:version="1.3" office:mimetype="application/vnd.oasis.opendocument.spreadsheet">
<office:automatic-styles>
<number:date-style style:name="day" number:language="de" number:country="CH"><number:day number:style="long"/><number:text>.</number:text><number:month number:style="long"/><number:text>.</number:text><number:year number:style="long"/></number:date-style>
<number:number-style style:name="amount" number:language="de" number:country="DE"><number:number number:decimal-places="2" number:min-decimal-places="2" number:min-integer-digits="1" number:grouping="true"/></number:number-style>
<style:style style:name="d" style:family="table-cell" style:data-style-name="day"/>
<style:style style:name="n" style:family="table-cell" style:data-style-name="amount"/>
</office:automatic-styles>
<office:body><office:spreadsheet>${sheets.map(table).join("")}</office:spreadsheet></office:body></office:document>`;
}

const OFFICE = {
  "contracts-libreoffice.csv": [["Contracts", [
    ["Vertrag", "Kunde", "Beginn", "Ende", "Betrag"],
    ["V-1", "Ada", { date: "2026-01-01" }, { date: "2026-12-31" }, 1234.5],
    ["V-2", "Ben", { date: "2026-02-03" }, { date: "2027-02-02" }, 80],
    ["V-3", "Cy", { date: "2024-02-29" }, { date: "2026-12-31" }, 12000.25],
  ]]],
  "two-sheets-libreoffice.xlsx": [
    ["Read me", [["Orders of March"], ["Made by the shop on 1 April 2026"], ["The orders are on the second sheet."]]],
    ["Orders", [
      ["order", "customer", "amount", "due"],
      ["O-1", "Ada", 12.5, { date: "2026-04-30" }],
      ["O-2", "Ben", 7, { date: "2026-05-15" }],
    ]],
  ],
  "merged-header-libreoffice.xlsx": [["Prices", [
    [{ over: 2, text: "Article" }, { over: 3, text: "Price per piece" }],
    ["number", "name", "small", "medium", "large"],
    ["A-1", "Tea", 4.5, 4.2, 4],
    ["A-2", "Coffee", 7.25, 7, 6.5],
    ["A-3", "Cup", 11, 10.5, 9.75],
  ]]],
  "totals-row-libreoffice.xlsx": [["Invoices", [
    ["invoice", "customer", "amount"],
    ["R-1", "Ada", 100.5],
    ["R-2", "Ben", 200],
    ["R-3", "Cy", 49.5],
    ["", "Total", { sum: "[.C2:.C4]", value: 350 }],
  ]]],
  "invoices-libreoffice.pdf": [["Invoices", [["invoice", "customer", "amount"], ["R-1", "Ada", 100.5], ["R-2", "Ben", 200]]]],
};

/** Lets LibreOffice save a table. CSV: semicolons, UTF-8, cells as shown. */
function office(name, sheets, folder) {
  const kind = name.split(".").at(-1);
  const filter = { csv: "csv:Text - txt - csv (StarCalc):59,34,76,1,,0,false,true", pdf: "pdf:calc_pdf_Export", xlsx: "xlsx:Calc MS Excel 2007 XML" }[kind];
  const source = join(folder, name.replace(/\w+$/, "fods"));
  writeFileSync(source, flatDocument(sheets));
  execFileSync("soffice", [`-env:UserInstallation=file://${folder}/profile`, "--headless", "--convert-to", filter, "--outdir", folder, source], { stdio: "ignore" });
  return readFileSync(join(folder, name));
}

function makeAll() {
  const folder = mkdtempSync(join(tmpdir(), "samples-"));
  const files = {
    "invoices-excel-windows-1252.csv": excelCsv,
    "stock-excel-unicode.txt": excelUnicode,
    "contacts-excel-utf-8.csv": excelUtf8,
    "postings-sap-list.txt": sapList,
    "feedback-google-sheets.csv": googleSheets,
    "events-mixed-keys.ndjson": mixedKeys,
    ...Object.fromEntries(Object.entries(OFFICE).map(([name, sheets]) => [name, () => office(name, sheets, folder)])),
  };
  for (const [name, make] of Object.entries(files)) {
    const draft = join(folder, `draft-${name}`);
    writeFileSync(draft, make());
    copyFileSync(draft, join(HERE, name));
    console.log(name);
  }
  rmSync(folder, { recursive: true });
}

if (process.argv[1] === import.meta.filename) {
  if (process.argv[2] === "rows") {
    let part = "";
    for (const row of rows(Number(process.argv[3]))) {
      part += row;
      if (part.length > 1 << 16) {
        writeFileSync(1, part);
        part = "";
      }
    }
    writeFileSync(1, part);
  } else makeAll();
}
