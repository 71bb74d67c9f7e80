//! Standard output. Text of other machines may hold escape sequences, which a terminal would obey: there they are shown as escapes.
//! A file or a pipe gets the exact bytes.

use std::io::{self, BufWriter, IsTerminal, Write};

use cpumon_model::escape;

const BUFFER_BYTES: usize = 1 << 16;

/// Standard output, buffered; its writer must flush it.
#[must_use]
pub fn stdout() -> BufWriter<Box<dyn Write>> {
    let out = io::stdout().lock();
    let to: Box<dyn Write> = if out.is_terminal() { Box::new(ForTerminal::new(out)) } else { Box::new(out) };
    BufWriter::with_capacity(BUFFER_BYTES, to)
}

/// Escapes what is written, except line ends. A line is written once it is complete, or at a flush.
struct ForTerminal<W: Write> {
    to: W,
    line: Vec<u8>,
}

impl<W: Write> ForTerminal<W> {
    fn new(to: W) -> Self {
        Self { to, line: Vec::new() }
    }

    fn put(to: &mut W, line: &[u8]) -> io::Result<()> {
        let (text, end) = match line {
            [text @ .., b'\r', b'\n'] => (text, "\r\n"),
            [text @ .., b'\n'] => (text, "\n"),
            text => (text, ""),
        };
        write!(to, "{}{end}", escape(&String::from_utf8_lossy(text)))
    }
}

impl<W: Write> Write for ForTerminal<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                Self::put(&mut self.to, &self.line)?;
                self.line.clear();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Self::put(&mut self.to, &self.line)?;
        self.line.clear();
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_escapes_and_whole_characters_however_the_text_is_cut() {
        let text = "a,\x1b[31mred\x07\r\n\u{202e}b\t日本\rover\r\n\nend".as_bytes();
        for size in 1..text.len() {
            let mut out = ForTerminal::new(Vec::new());
            for piece in text.chunks(size) {
                out.write_all(piece).unwrap();
            }
            out.flush().unwrap();
            let shown = String::from_utf8(out.to).unwrap();
            assert_eq!(shown, "a,\\x1b[31mred\\x07\r\n\\u{202e}b\\t日本\\rover\r\n\nend", "{size}");
        }
    }
}
