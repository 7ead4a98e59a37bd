//! The Report message, encoded by hand (docs/wire.md, "Messages").

/// What one device sends for one epoch: its bytes; fields that are zero are absent, as in every proto3 message.
pub fn encode_report(digest: u64, epoch: i64, report_id: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(payload.len() + 40);
    let mut fixed = |tag: u8, word: u64| {
        if word != 0 {
            bytes.push(tag);
            bytes.extend(word.to_le_bytes());
        }
    };
    fixed(0x09, digest);
    if epoch != 0 {
        bytes.push(0x10);
        put_varint(&mut bytes, ((epoch << 1) ^ (epoch >> 63)).cast_unsigned());
    }
    if report_id != 0 {
        bytes.push(0x19);
        bytes.extend(report_id.to_le_bytes());
    }
    if !payload.is_empty() {
        bytes.push(0x22);
        put_varint(&mut bytes, payload.len() as u64);
        bytes.extend(payload);
    }
    bytes
}

/// Base-128 digits, lowest first.
fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 128 {
        bytes.push((value % 128) as u8 | 128);
        value /= 128;
    }
    bytes.push(value as u8);
}
