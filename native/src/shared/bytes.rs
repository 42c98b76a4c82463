//! Big-endian numbers in a slice. Each of these panics where the slice is too short.

#[inline]
pub fn be_i16(bytes: &[u8], at: usize) -> i16 {
    i16::from_be_bytes(part(bytes, at))
}

#[inline]
pub fn be_i32(bytes: &[u8], at: usize) -> i32 {
    i32::from_be_bytes(part(bytes, at))
}

#[inline]
pub fn be_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(part(bytes, at))
}

#[inline]
pub fn be_i64(bytes: &[u8], at: usize) -> i64 {
    i64::from_be_bytes(part(bytes, at))
}

#[inline]
fn part<const SIZE: usize>(bytes: &[u8], at: usize) -> [u8; SIZE] {
    let mut found = [0; SIZE];
    found.copy_from_slice(&bytes[at..at + SIZE]);
    found
}
