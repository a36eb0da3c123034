//! Tags, texts, and cells of one part, and the memory that the reader needs for them.

use super::UNREAD;

/// Maximum bytes of one tag, or of the text between two: a cell holds 32,767 characters.
const LONGEST_TOKEN: u64 = 1 << 20;

/// Maximum bytes of one row, cell, or string.
const LONGEST_CELL: u64 = 4 << 20;

/// Maximum number of open elements.
const DEEPEST: u32 = 1_000;

/// Maximum bytes of a tag whose attributes are read here, and of every name of a tag.
const LONGEST_READ_TAG: usize = 16 << 10;

/// Memory of a string besides its text: its slot in a growing list, and the smallest allocation, in bytes.
const STRING: u64 = 64;

/// Memory of a font, style, name, or other entry besides its text, in bytes.
const ENTRY: u64 = 512;

/// What the reader keeps of the tags of all parts.
#[derive(Debug, Default)]
pub(super) struct Retained {
    strings: u64,
    /// Strings for which space is allocated, because a table announces them.
    announced: u64,
    /// Entries whose texts are not copied.
    entries: u64,
    /// Styles of cells, each with a copy of the name of its font and of its number format.
    styles: u64,
    longest_style_text: u64,
    /// Sheets, each with a copy of its path and two of its name.
    sheets: u64,
    longest_path: u64,
}

impl Retained {
    /// Memory in bytes, besides that of the parts themselves.
    pub(super) fn bytes(&self) -> u64 {
        let copied = |number: u64, longest: u64| number.saturating_mul(ENTRY + 2 * longest);
        let strings = self.strings.max(self.announced).saturating_mul(STRING);
        strings
            .saturating_add(self.entries.saturating_mul(ENTRY))
            .saturating_add(copied(self.styles, self.longest_style_text))
            .saturating_add(copied(self.sheets, self.longest_path))
    }
}

/// Kind of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Part {
    Sheet,
    /// Relationships of a sheet, such as its hyperlinks: not read.
    LinksOfSheet,
    #[default]
    Other,
}

/// Position in the markup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ScanState {
    #[default]
    Text,
    Tag,
    /// Inside an attribute value, up to this quote.
    Quoted(u8),
    /// Comments, CDATA, and processing instructions, up to a `>` after these characters.
    Until(&'static [u8]),
}

/// Measures the markup of one part.
#[derive(Debug, Default)]
pub(super) struct Markup {
    part: Part,
    /// Number of open elements: the reader keeps their names.
    depth: u32,
    scan_state: ScanState,
    token: u64,
    /// Bytes since the start of the last row, cell, or string.
    cell: u64,
    /// Start of the current tag.
    tag: Vec<u8>,
    in_rows: bool,
    /// Full names of the open elements whose texts the reader joins: a value or a string, and a text in it. Other tags in them
    /// do not begin a cell.
    joined: Vec<Vec<u8>>,
    /// The last two bytes.
    before: [u8; 2],
}

impl Markup {
    pub(super) fn of(part: Part) -> Self {
        Self { part, ..Self::default() }
    }

    /// Reads the next bytes of the part.
    pub(super) fn read(&mut self, bytes: &[u8], retained: &mut Retained) -> Result<(), String> {
        for &byte in bytes {
            self.token += 1;
            self.cell += 1;
            self.byte(byte, retained)?;
            if self.token > LONGEST_TOKEN || ((self.in_rows || !self.joined.is_empty()) && self.cell > LONGEST_CELL) {
                return Err("has a cell that does not end".to_owned());
            }
        }
        Ok(())
    }

    /// Checks that the part does not end within a tag.
    pub(super) fn end(&self) -> Result<(), String> {
        if self.scan_state == ScanState::Text { Ok(()) } else { Err("is damaged: a tag does not end".to_owned()) }
    }

    fn byte(&mut self, byte: u8, retained: &mut Retained) -> Result<(), String> {
        // XML has no others. They occur in encodings in which the same bytes are no tags.
        if byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r') {
            return Err("is damaged: a part of it is not text in UTF-8".to_owned());
        }
        match self.scan_state {
            ScanState::Text if byte == b'<' => {
                self.scan_state = ScanState::Tag;
                self.token = 0;
                self.tag.clear();
            }
            ScanState::Tag if byte == b'>' => return self.end_tag(retained),
            ScanState::Tag => {
                self.push(byte);
                let end: Option<&'static [u8]> = match self.tag.as_slice() {
                    b"?" => Some(b"?"),
                    b"!--" => Some(b"--"),
                    b"![CDATA[" => Some(b"]]"),
                    _ => None,
                };
                if let Some(end) = end {
                    self.scan_state = ScanState::Until(end);
                    self.before = [0; 2];
                    return Ok(());
                }
                match self.tag.as_slice() {
                    start if start[0] == b'!' && !b"!--".starts_with(start) && !b"![CDATA[".starts_with(start) => {
                        return Err("is damaged: it has a document type".to_owned());
                    }
                    _ if matches!(byte, b'"' | b'\'') => self.scan_state = ScanState::Quoted(byte),
                    _ => {}
                }
            }
            ScanState::Quoted(quote) => {
                self.push(byte);
                if byte == quote {
                    self.scan_state = ScanState::Tag;
                }
            }
            ScanState::Until(end) if byte == b'>' => {
                if self.before.ends_with(end) {
                    self.scan_state = ScanState::Text;
                    self.token = 0;
                } else if end != b"]]" && matches!(self.before, [0, 0 | b'-']) {
                    return Err("is damaged: a comment ends in its beginning".to_owned());
                }
            }
            ScanState::Text | ScanState::Until(_) => {}
        }
        self.before = [self.before[1], byte];
        Ok(())
    }

    fn push(&mut self, byte: u8) {
        if self.tag.len() < LONGEST_READ_TAG {
            self.tag.push(byte);
        }
    }

    fn end_tag(&mut self, retained: &mut Retained) -> Result<(), String> {
        let length = self.token;
        let is_empty = self.before[1] == b'/';
        self.scan_state = ScanState::Text;
        self.token = 0;
        self.before = [0; 2];
        let end = self.tag.iter().position(u8::is_ascii_whitespace).unwrap_or(self.tag.len());
        let is_end = self.tag.starts_with(b"/");
        if self.tag.len() == LONGEST_READ_TAG && (is_end || end == self.tag.len()) {
            return Err("has a tag that does not end".to_owned());
        }
        if let Some(name) = self.tag.strip_prefix(b"/") {
            let name = name.trim_ascii_end();
            self.depth = self.depth.saturating_sub(1);
            if self.joined.last().is_some_and(|open| open == name) {
                self.joined.pop();
            }
            if local(name) == b"sheetData" && self.joined.is_empty() {
                (self.in_rows, self.cell) = (false, 0);
            }
            return Ok(());
        }
        // Complete comments and CDATA do not come here. The reader takes everything up to their end as a part of this one.
        if self.tag.starts_with(b"!") {
            return Err("is damaged: a comment ends in its beginning".to_owned());
        }
        let name = &self.tag[..end];
        let name = if is_empty { name.strip_suffix(b"/").unwrap_or(name) } else { name };
        self.depth += u32::from(!is_empty);
        if self.depth > DEEPEST {
            return Err("is damaged: its elements are nested too deeply".to_owned());
        }
        let is_text_of_joined = self.joined.len() == 1 && local(name) == b"t";
        let is_joined = matches!(local(name), b"si" | b"is" | b"v" | b"definedName");
        let begins_joined = self.joined.is_empty() && is_joined;
        // The reader may wait for the end of the inner one.
        if !begins_joined && is_joined || self.joined.len() == 2 && local(name) == b"t" {
            return Err("is damaged: it has a value in a value".to_owned());
        }
        if begins_joined {
            self.cell = 0;
        }
        if !is_empty && (begins_joined || is_text_of_joined) {
            self.joined.push(name.to_vec());
        }
        match local(name) {
            b"c" | b"row" if self.joined.is_empty() => self.cell = 0,
            b"sheetData" if self.joined.is_empty() => (self.in_rows, self.cell) = (!is_empty, 0),
            b"si" => retained.strings += 1,
            b"sst" => {
                require_whole_tag(length)?;
                retained.announced = retained.announced.max(announced(&self.tag));
            }
            b"name" => retained.longest_style_text = retained.longest_style_text.max(length),
            b"numFmt" => {
                retained.entries += 1;
                retained.longest_style_text = retained.longest_style_text.max(length);
            }
            b"xf" => retained.styles += 1,
            b"Relationship" => {
                require_whole_tag(length)?;
                check_relationship(&self.tag[end..])?;
                if self.part != Part::LinksOfSheet {
                    retained.entries += 1;
                    retained.longest_path = retained.longest_path.max(length);
                }
            }
            // The rows of a sheet are not kept, but these would be.
            b"sheet" | b"definedName" if self.part == Part::Sheet => {
                return Err("is damaged: a sheet has the contents of another part".to_owned());
            }
            b"sheet" => {
                retained.sheets += 1;
                retained.longest_path = retained.longest_path.max(length);
            }
            b"font" | b"fill" | b"border" | b"definedName" => retained.entries += 1,
            _ => {}
        }
        Ok(())
    }
}

/// Refuses a tag that is read only in part.
fn require_whole_tag(length: u64) -> Result<(), String> {
    if length as usize > LONGEST_READ_TAG { Err("has a tag that does not end".to_owned()) } else { Ok(()) }
}

/// Name without its prefix.
fn local(name: &[u8]) -> &[u8] {
    name.iter().position(|&byte| byte == b':').map_or(name, |at| &name[at + 1..])
}

/// Largest number behind any `uniqueCount`; `u64::MAX` if it is none. The reader allocates space for as many strings.
fn announced(tag: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(tag);
    let numbers = text.split("uniqueCount").skip(1).map(|behind| {
        let digits = behind.trim_start_matches(|c: char| !c.is_ascii_digit());
        let digits = digits.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default().trim_start_matches('0');
        if digits.is_empty() { 0 } else { digits.parse().unwrap_or(u64::MAX) }
    });
    numbers.max().unwrap_or(0)
}

/// Refuses a workbook or sheet in a part that is not measured as markup, because of its folder, or because its name does not
/// end in `.xml`. The reader decodes entities in some names.
fn check_relationship(attributes: &[u8]) -> Result<(), String> {
    let (mut is_workbook, mut is_sheet, mut is_markup, mut is_among_sheets) = (false, false, true, false);
    let mut rest = attributes;
    while let Some(at) = rest.iter().position(|&byte| byte == b'=') {
        let malformed = || "is damaged: a relationship has no value".to_owned();
        let key = rest[..at].trim_ascii();
        let value = rest[at + 1..].trim_ascii_start();
        let quote = *value.first().filter(|byte| matches!(byte, b'"' | b'\'')).ok_or_else(malformed)?;
        let length = value[1..].iter().position(|&byte| byte == quote).ok_or_else(malformed)?;
        let (content, behind) = (&value[1..=length], &value[length + 2..]);
        match key {
            b"Type" => {
                is_workbook |= content.ends_with(b"officeDocument");
                is_sheet |= content.ends_with(b"sheet"); // of any kind
            }
            b"Target" => {
                let path = String::from_utf8_lossy(content).to_ascii_lowercase();
                let mut folders = path.rsplit(['/', '\\']).skip(1);
                let is_unread =
                    folders.any(|folder| UNREAD.iter().any(|unread| unread.trim_end_matches('/') == folder));
                is_markup &= path.rsplit('.').next() == Some("xml") && !is_unread && !path.contains('&');
                is_among_sheets |= path.contains("worksheets");
            }
            _ => {}
        }
        rest = behind;
    }
    if (is_workbook || is_sheet) && !is_markup || is_workbook && is_among_sheets {
        return Err("is damaged: a sheet is not where sheets are".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(text: &str) -> Result<Retained, String> {
        measure_part(text, Part::Other)
    }

    fn measure_part(text: &str, part: Part) -> Result<Retained, String> {
        let (mut markup, mut retained) = (Markup::of(part), Retained::default());
        markup.read(text.as_bytes(), &mut retained)?;
        markup.end()?;
        Ok(retained)
    }

    #[test]
    fn unterminated_markup_is_refused() {
        let long = "x".repeat(2 << 20);
        for endless in [
            format!("<a>{long}"),
            format!("<a b=\"{}\"/>", "<>".repeat(1 << 20)),
            format!("<!-- {} -->", "<b>".repeat(1 << 20)),
            format!("<a><![CDATA[{}]]>", "<b>".repeat(1 << 20)),
            format!("<sheetData><row><c>{}", "<t>text</t>".repeat(1 << 19)),
            "<a b='>".to_owned(),
            "<!-- >".to_owned(),
        ] {
            assert!(measure(&endless).is_err(), "{}", &endless[..endless.len().min(30)]);
        }
        measure(&format!("<sheetData>{}</sheetData>", "<row><c><v>1</v></c></row>".repeat(1 << 19))).expect("cells");
        measure(&format!("<mergeCells>{}</mergeCells>", "<mergeCell ref='A1'/>".repeat(1 << 19))).expect("others");
    }

    #[test]
    fn value_is_measured_as_a_whole() {
        // The reader ignores the other tags in it and joins the texts.
        let text = "x".repeat(1 << 19);
        for between in ["<row/>", "</c><c>", "</row><row>", "<v>", "<is/>", "</is>", "</is x>", "</t x>", "</rPh><y:t>"]
        {
            let texts = format!("<t>{text}{between}").repeat(9);
            for joined in [
                format!("<c t='str'><v>{texts}"),
                format!("<c><is>{texts}"),
                format!("<si>{texts}"),
                format!("<definedName name='a'>{texts}"),
            ] {
                let sheet = format!("<sheetData><row>{joined}");
                assert!(measure(&sheet).is_err(), "{}", &sheet[..40]);
            }
        }
        let cell = format!("<c t='inlineStr'><is><r><t>{text}</t></r></is></c>");
        measure(&format!("<sheetData><row>{}</row></sheetData>", cell.repeat(9))).expect("several cells");
        measure(&format!("<sst>{}</sst>", format!("<si><t>{text}</t><rPh><t>x</t></rPh></si>").repeat(9)))
            .expect("several strings");
    }

    #[test]
    fn tags_are_seen_as_the_reader_sees_them() {
        let table = "<sst uniqueCount='7'>";
        for hidden in [
            format!("<?a ' ?>{table}<?b ' ?>"),
            format!("</a '><x '>{table}"),
            format!("<!-- ' -->{table}<!-- ' -->"),
            format!("<![CDATA[']]>{table}<![CDATA[']]>"),
            "<a-b:sst uniqueCount='7'>".to_owned(),
            "<sst\u{a0}>".to_owned() + table,
        ] {
            assert_eq!(measure(&hidden).expect("fine").announced, 7, "{hidden}");
        }
        for nested in ["<is></is x><c>", "<row><is><c><x:is>", "<row><is/ ><c><is><v>", "<si><rPh><t></rPh><y:t>"] {
            assert!(measure(&format!("{nested}{}", "<c><t>x</t>".repeat(1 << 20))).is_err(), "{nested}");
        }
        assert!(measure(&format!("<{}:sst uniqueCount='7'>", "a".repeat(LONGEST_READ_TAG))).is_err(), "a long name");
        assert!(measure(&"<>".repeat(2_000)).is_err(), "open elements");
        for refused in
            ["<!DOCTYPE a [<!ENTITY b \"'\">]><a/>", "<!doctype a><a/>", "<!--><a/>-->", "<!---><a/>-->", "<?><a/>?>"]
                .into_iter()
                .chain(["<!><a/>", "<!-><a/>-->", "<![><a/>]]>", "<![CDATA><a/>]]>"])
        {
            assert!(measure(refused).is_err(), "{refused}");
        }
        let utf_16: String = "<a/>".chars().flat_map(|c| [c, '\0']).collect();
        assert!(measure(&utf_16).is_err());
        assert!(measure("<a>\u{1b}$B</a>").is_err(), "ISO-2022-JP");
    }

    #[test]
    fn strings_that_are_announced_are_counted() {
        for (tag, number) in [
            ("<sst count='1' uniqueCount=\"18446744073709551615\">", u64::MAX),
            ("<x:sst uniqueCount = '12'>", 12),
            ("<sst xuniqueCount='1' uniqueCount='12'>", 12),
            ("<sst uniqueCount='12'></sst><sst/>", 12),
            ("<sst uniqueCount='0000000000000000000000000000012'>", 12),
            ("<sst>", 0),
        ] {
            assert_eq!(measure(tag).expect("fine").announced, number, "{tag}");
        }
        assert!(measure(&format!("<sst {}uniqueCount='12'>", " ".repeat(LONGEST_READ_TAG))).is_err());
        assert_eq!(measure("<sst><si><t>a</t></si><x:si/></sst>").expect("fine").strings, 2);
    }

    #[test]
    fn copies_of_texts_are_counted_as_often_as_they_are_made() {
        let font = format!("<fonts><font><name val=\"{}\"/></font></fonts>", "A".repeat(1_000_000));
        let styles = "<xf fontId=\"0\"/>".repeat(200_000);
        let bytes =
            measure(&format!("<styleSheet>{font}<cellXfs>{styles}</cellXfs></styleSheet>")).expect("ok").bytes();
        assert!(bytes > 200_000 * 1_000_000, "{bytes}");
        let path = format!("<Relationship Id='1' Target='{}.xml'/>", "a".repeat(10_000));
        let bytes = measure(&(path + &"<sheet r:id='1'/>".repeat(100_000))).expect("ok").bytes();
        assert!(bytes > 100_000 * 10_000, "{bytes}");
        // The largest that Excel makes, with its usual texts.
        let styles = "<xf numFmtId='164' fontId='1' fillId='2' borderId='1' xfId='0'/>".repeat(65_490);
        let usual = format!("<numFmt numFmtId='164' formatCode='{}'/><name val='Calibri'/>{styles}", "0".repeat(255));
        assert!(measure(&usual).expect("ok").bytes() < 100 << 20);
    }

    #[test]
    fn parts_that_would_not_be_measured_are_refused() {
        let of = |kind: &str, target: &str| format!("<Relationship Id=\"a\" Type=\"x/{kind}\" Target = '{target}' />");
        for (kind, target) in [
            ("officeDocument", "xl/workbook.bin"),
            ("officeDocument", "CustomXml/workbook.xml"),
            ("officeDocument", "&#99;ustomXml/workbook.xml"),
            ("officeDocument", "xl/worksheets/workbook.xml"),
            ("worksheet", "worksheets/sheet1.dat"),
            ("worksheet", "pivotCache/sheet1.xml"),
            ("chartsheet", "media/image1.png"),
            ("worksheet", "drawings/sheet1.xml"),
        ] {
            assert!(measure(&of(kind, target)).is_err(), "{kind}");
        }
        assert!(measure("<Relationship Type=x/worksheet Target='a'/>").is_err());
        assert!(measure("<Relationship Type='worksheet' Target='a.bin'/>").is_err());
        for (kind, target) in [
            ("worksheet", "/xl/worksheets/Sheet1.XML"),
            ("worksheet", "worksheets/drawings.xml"),
            ("hyperlink", "https://example.com/?a=b"),
        ] {
            measure(&of(kind, target)).expect(kind);
        }
        for tag in ["<sheet name='a'/>", "<definedName name='a'>"] {
            assert!(measure_part(tag, Part::Sheet).is_err(), "{tag}");
            measure(tag).expect("in the workbook part");
        }
        let link = of("hyperlink", "https://example.com/");
        assert_eq!(measure_part(&link, Part::LinksOfSheet).expect("a link").bytes(), 0);
    }
}
