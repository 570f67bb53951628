//! As much of D-Bus's wire format as two method calls take: little endian, signatures `sba(sv)` and `ss`. No I/O.

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
    let to = ["/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager", "SetUnitProperties"];
    call(to, "sba(sv)", &body)
}

/// The call of `StopUnit`.
pub(super) fn stop_unit(unit: &str) -> Vec<u8> {
    let mut body = Message::default();
    body.text(unit);
    body.text("replace");
    let to = ["/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager", "StopUnit"];
    call(to, "ss", &body)
}

/// The call that asks for a property of a unit.
pub(super) fn get_property(unit: &str, interface: &str, name: &str) -> Vec<u8> {
    let mut body = Message::default();
    body.text(interface);
    body.text(name);
    let path = format!("/org/freedesktop/systemd1/unit/{}", label(unit));
    call([&path, "org.freedesktop.DBus.Properties", "Get"], "ss", &body)
}

/// A name as part of an object's path: what is no letter or digit, and a digit in front, as its code.
fn label(name: &str) -> String {
    let each = name.bytes().enumerate().map(|(n, byte)| match byte {
        b'a'..=b'z' | b'A'..=b'Z' => char::from(byte).to_string(),
        b'0'..=b'9' if n > 0 => char::from(byte).to_string(),
        _ => format!("_{byte:02x}"),
    });
    each.collect()
}

/// A method call to an object, an interface and a method of it.
fn call([object, interface, method]: [&str; 3], signature: &str, body: &Message) -> Vec<u8> {
    // Little endian, a method call, no flags, version 1; the serial number is 1.
    let mut message = Message(vec![b'l', 1, 0, 1]);
    message.length(body.0.len());
    message.number(1);
    message.structures(|message| {
        for (code, kind, text) in
            [(1, "o", object), (2, "s", interface), (3, "s", method), (6, "s", "org.freedesktop.systemd1")]
        {
            message.align(8);
            message.0.push(code);
            message.signature(kind);
            message.text(text);
        }
        message.align(8);
        message.0.push(8);
        message.signature("g");
        message.signature(signature);
    });
    message.align(8);
    message.0.extend(&body.0);
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

/// The value of a property in an answer; `None` where it is an error, or a value of another kind.
pub(super) fn variant(head: &[u8; HEAD], rest: &[u8]) -> Option<Value> {
    if head[1] != 2 {
        return None;
    }
    let fields = usize::try_from(u32::from_le_bytes([head[12], head[13], head[14], head[15]])).ok()?;
    let body = rest.get(fields.checked_next_multiple_of(8)?..)?;
    let length = usize::from(*body.first()?);
    let kind = body.get(1..1 + length)?;
    // The signature ends with a zero.
    let at = 2 + length;
    match kind {
        b"t" => {
            let bytes = body.get(at.next_multiple_of(8)..)?.first_chunk()?;
            Some(Value::Number(u64::from_le_bytes(*bytes)))
        }
        b"ay" => {
            let at = at.next_multiple_of(4);
            let length = usize::try_from(u32::from_le_bytes(*body.get(at..)?.first_chunk()?)).ok()?;
            Some(Value::Bytes(body.get(at + 4..)?.get(..length)?.to_vec()))
        }
        _ => None,
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

    #[test]
    fn a_property_is_read() {
        let head = [b'l', 2, 0, 1, 16, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0];
        let mut rest = Message(vec![5, 1, b'u', 0, 1, 0, 0, 0]);
        let mut body = Message::default();
        body.signature("t");
        body.align(8);
        body.0.extend(4096_u64.to_le_bytes());
        rest.0.extend(&body.0);
        assert_eq!(variant(&head, &rest.0), Some(Value::Number(4096)));
        rest.0.truncate(8);
        body = Message::default();
        body.signature("ay");
        body.length(2);
        body.0.extend([1, 2]);
        rest.0.extend(&body.0);
        assert_eq!(variant(&head, &rest.0), Some(Value::Bytes(vec![1, 2])));
        rest.0.pop();
        assert_eq!(variant(&head, &rest.0), None);
        assert_eq!(label("cri-containerd-1a.scope"), "cri_2dcontainerd_2d1a_2escope");
        assert_eq!(label("1"), "_31");
    }

    proptest! {
        #[test]
        fn any_bytes_are_safe(head: [u8; HEAD], rest in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (rest_of(&head), answer(&head, &rest), variant(&head, &rest));
        }
    }
}
