//! As much of D-Bus's wire format as one method call takes: little endian, signature `sba(sv)`. No I/O.

use super::Lasting;

/// A value of a property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// `t`
    Number(u64),
    /// `ay`
    Bytes(Vec<u8>),
}

/// What came back.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It was done.
    Done,
    /// It was refused: the error's name and text.
    Refused { name: String, text: String },
    /// Something else, a signal say.
    Other,
}

/// A head is 16 bytes, the last four of which are the length of the fields behind it.
pub(super) const HEAD: usize = 16;

#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn align(&mut self, to: usize) {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
    }

    fn number(&mut self, number: u32) {
        self.align(4);
        self.0.extend(number.to_le_bytes());
    }

    fn length(&mut self, length: usize) {
        self.number(u32::try_from(length).unwrap_or(u32::MAX));
    }

    fn text(&mut self, text: &str) {
        self.length(text.len());
        self.0.extend(text.as_bytes());
        self.0.push(0);
    }

    fn signature(&mut self, signature: &str) {
        self.0.push(u8::try_from(signature.len()).unwrap_or(u8::MAX));
        self.0.extend(signature.as_bytes());
        self.0.push(0);
    }

    /// An array of structures; its length does not count the space in front of the first.
    fn structures(&mut self, fill: impl FnOnce(&mut Self)) {
        self.number(0);
        let at = self.0.len();
        self.align(8);
        let first = self.0.len();
        fill(self);
        let length = u32::try_from(self.0.len() - first).unwrap_or(u32::MAX);
        self.0[at - 4..at].copy_from_slice(&length.to_le_bytes());
    }
}

/// The call of `SetUnitProperties`.
pub(super) fn set_unit_properties(unit: &str, properties: &[(&str, Value)], lasting: Lasting) -> Vec<u8> {
    let mut body = Message::default();
    body.text(unit);
    body.number(u32::from(lasting == Lasting::Boot));
    body.structures(|body| {
        for (name, value) in properties {
            body.align(8);
            body.text(name);
            match value {
                Value::Number(number) => {
                    body.signature("t");
                    body.align(8);
                    body.0.extend(number.to_le_bytes());
                }
                Value::Bytes(bytes) => {
                    body.signature("ay");
                    body.length(bytes.len());
                    body.0.extend(bytes);
                }
            }
        }
    });
    // Little endian, a method call, no flags, version 1; the serial number is 1.
    let mut message = Message(vec![b'l', 1, 0, 1]);
    message.length(body.0.len());
    message.number(1);
    message.structures(|message| {
        for (code, kind, text) in [
            (1, "o", "/org/freedesktop/systemd1"),
            (2, "s", "org.freedesktop.systemd1.Manager"),
            (3, "s", "SetUnitProperties"),
            (6, "s", "org.freedesktop.systemd1"),
        ] {
            message.align(8);
            message.0.push(code);
            message.signature(kind);
            message.text(text);
        }
        message.align(8);
        message.0.push(8);
        message.signature("g");
        message.signature("sba(sv)");
    });
    message.align(8);
    message.0.extend(body.0);
    message.0
}

/// How many bytes follow this head: fields, padding and body. `None` where it is none of ours.
pub(super) fn rest_of(head: &[u8; HEAD]) -> Option<usize> {
    let number = |at: usize| usize::try_from(u32::from_le_bytes(*head.get(at..)?.first_chunk()?)).ok();
    if head[0] != b'l' {
        return None;
    }
    number(12)?.checked_next_multiple_of(8)?.checked_add(number(4)?)
}

/// What a message says.
pub(super) fn answer(head: &[u8; HEAD], rest: &[u8]) -> Answer {
    match head[1] {
        2 => Answer::Done,
        3 => {
            let fields =
                usize::try_from(u32::from_le_bytes([head[12], head[13], head[14], head[15]])).unwrap_or(0);
            let body = fields.checked_next_multiple_of(8).and_then(|at| rest.get(at..)).unwrap_or_default();
            let name = error_name(rest.get(..fields).unwrap_or_default());
            Answer::Refused { name: name.unwrap_or_default(), text: text(body, 0).unwrap_or_default().0 }
        }
        _ => Answer::Other,
    }
}

/// A string at this place or where its alignment puts it, and where it ends.
fn text(bytes: &[u8], at: usize) -> Option<(String, usize)> {
    let at = at.checked_next_multiple_of(4)?;
    let length = usize::try_from(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?)).ok()?;
    let end = at.checked_add(4)?.checked_add(length)?;
    let text = bytes.get(at + 4..end)?;
    Some((String::from_utf8_lossy(text).into_owned(), end + 1))
}

/// Field 4 of an error. The first field that is neither text nor a number ends the search.
fn error_name(fields: &[u8]) -> Option<String> {
    let mut at = 0_usize;
    loop {
        at = at.checked_next_multiple_of(8)?;
        let (code, kind) = (*fields.get(at)?, *fields.get(at + 2)?);
        at += 4;
        match kind {
            b's' | b'o' => {
                let (found, end) = text(fields, at)?;
                if code == 4 {
                    return Some(found);
                }
                at = end;
            }
            b'u' => at = at.checked_next_multiple_of(4)? + 4,
            b'g' => at += usize::from(*fields.get(at)?) + 2,
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_call_is_laid_out_as_the_specification_says() {
        let call = set_unit_properties("a.scope", &[("MemoryMax", Value::Number(4096))], Lasting::Boot);
        assert_eq!(call[..4], [b'l', 1, 0, 1]);
        let head: &[u8; HEAD] = call.first_chunk().unwrap();
        assert_eq!(rest_of(head), Some(call.len() - HEAD));
        let body = call.len() - usize::from(call[4]);
        assert!(body.is_multiple_of(8));
        let expected = [
            &7_u32.to_le_bytes()[..],
            b"a.scope\0",
            &1_u32.to_le_bytes(),
            // From the name to the end of the value; it begins at a multiple of eight.
            &32_u32.to_le_bytes(),
            &[0; 4],
            &9_u32.to_le_bytes(),
            b"MemoryMax\0",
            b"\x01t\0",
            &[0; 7],
            &4096_u64.to_le_bytes(),
        ]
        .concat();
        assert_eq!(call[body..], expected);
    }

    #[test]
    fn answers_are_told_apart() {
        let mut fields = Message::default();
        fields.0.extend([5, 1, b'u', 0, 1, 0, 0, 0]);
        fields.0.push(4);
        fields.signature("s");
        fields.text("org.freedesktop.systemd1.NoSuchUnit");
        let length = u8::try_from(fields.0.len()).unwrap();
        fields.align(8);
        fields.text("Unit a.scope not loaded.");
        let head = [b'l', 3, 0, 1, 29, 0, 0, 0, 1, 0, 0, 0, length, 0, 0, 0];
        assert_eq!(
            answer(&head, &fields.0),
            Answer::Refused {
                name: "org.freedesktop.systemd1.NoSuchUnit".into(),
                text: "Unit a.scope not loaded.".into()
            }
        );
        assert_eq!(answer(&[b'l', 2, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0], &[]), Answer::Done);
        assert_eq!(answer(&[b'l', 4, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0], &[]), Answer::Other);
    }

    proptest! {
        #[test]
        fn any_bytes_are_safe(head: [u8; HEAD], rest in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (rest_of(&head), answer(&head, &rest));
        }
    }
}
