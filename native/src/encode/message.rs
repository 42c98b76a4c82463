//! The fields of a `reput.Message`, read where they stand in the object.
//!
//! Python code that runs in between could change a message, so none runs: fields of other than
//! built-in types are not asked anything, and such a message is Python's to put.

use std::net::Ipv4Addr;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyString, PyTuple, PyType};
use pyo3::{Borrowed, ffi};

const FIELDS: usize = 12;
const BIT_V6: i64 = 0x30; // BORN_HOST_V6 | STORE_HOST_V6

/// Where the fields of an object of exactly this class are, in bytes from its beginning.
struct MessageClass {
    class: Py<PyType>,
    places: [usize; FIELDS],
}

static MESSAGE: PyOnceLock<Option<MessageClass>> = PyOnceLock::new();

/// A message's fields, in the order in which the class declares them; borrowed from the message.
pub struct Fields<'a, 'py>([Borrowed<'a, 'py, PyAny>; FIELDS]);

/// The numbers of a message, each within its field of the record.
#[derive(Clone, Copy)]
pub struct Numbers {
    pub queue_id: i32,
    pub flag: i32,
    pub sys_flag: i32,
    pub reconsume_times: i32,
    pub prepared_transaction_offset: i64,
    /// The store time where it is `None`.
    pub born_timestamp: Option<i64>,
    /// The store's host where it is `None`.
    pub born_host: Option<[u8; 8]>,
}

impl<'a, 'py> Fields<'a, 'py> {
    /// The fields of `message`; `None` for an object of any other class, a derived one included.
    #[inline]
    pub fn of(message: &'a Bound<'py, PyAny>) -> Option<Self> {
        let py = message.py();
        let known = MESSAGE.get(py)?.as_ref()?;
        if message.get_type_ptr().cast() != known.class.as_ptr() {
            return None;
        }
        let mut fields = [None; FIELDS];
        for (field, place) in fields.iter_mut().zip(known.places) {
            // SAFETY: the class has slots, so in each object of exactly this class a field is a
            // pointer at this place, null if the field was deleted. While the interpreter lock is
            // held and no Python code runs, the message keeps what it refers to.
            *field = unsafe {
                let slot = message.as_ptr().cast::<u8>().add(place);
                Borrowed::from_ptr_or_opt(py, slot.cast::<*mut ffi::PyObject>().read())
            };
            (*field)?;
        }
        // All are there; the first stands in for what cannot be.
        let first = fields[0]?;
        Some(Self(fields.map(|field| field.unwrap_or(first))))
    }

    #[inline]
    pub fn topic(&self) -> Borrowed<'a, 'py, PyAny> {
        self.0[0]
    }

    #[inline]
    pub fn body(&self) -> Borrowed<'a, 'py, PyAny> {
        self.0[1]
    }

    #[inline]
    pub fn queue_id(&self) -> Borrowed<'a, 'py, PyAny> {
        self.0[2]
    }

    #[inline]
    pub fn tags(&self) -> Borrowed<'a, 'py, PyAny> {
        self.0[3]
    }

    #[inline]
    pub fn keys(&self) -> Borrowed<'a, 'py, PyAny> {
        self.0[4]
    }

    #[inline]
    pub fn properties(&self) -> Borrowed<'a, 'py, PyAny> {
        self.0[5]
    }

    /// `None` where one is no plain number, does not fit, or has to be looked at.
    #[inline]
    pub fn numbers(&self) -> Option<Numbers> {
        let queue_id = i32::try_from(integer(self.0[2])?).ok()?;
        let sys_flag = integer(self.0[7])?;
        if queue_id < 0 || sys_flag & BIT_V6 != 0 {
            return None;
        }
        let born = self.0[8];
        let host = self.0[9];
        Some(Numbers {
            queue_id,
            flag: i32::try_from(integer(self.0[6])?).ok()?,
            sys_flag: i32::try_from(sys_flag).ok()?,
            born_timestamp: if born.is_none() {
                None
            } else {
                Some(integer(born)?)
            },
            born_host: if host.is_none() {
                None
            } else {
                Some(packed_host(host)?)
            },
            reconsume_times: i32::try_from(integer(self.0[10])?).ok()?,
            prepared_transaction_offset: integer(self.0[11])?,
        })
    }
}

/// Find the fields of the class, before a message is looked at: it is Python code that finds them.
pub fn load_class(py: Python<'_>) -> PyResult<()> {
    MESSAGE.get_or_try_init(py, || MessageClass::find(py))?;
    Ok(())
}

impl MessageClass {
    /// Find the places by making a message of objects that are nowhere else, and looking for them.
    fn find(py: Python<'_>) -> PyResult<Option<Self>> {
        let class = py
            .import("reput.record.messages.message")?
            .getattr("Message")?;
        let object = py.import("builtins")?.getattr("object")?;
        let objects = (0..FIELDS)
            .map(|_| object.call0())
            .collect::<PyResult<Vec<_>>>()?;
        let message = class.call1(PyTuple::new(py, &objects)?)?;
        let size: usize = class.getattr("__basicsize__")?.extract()?;
        let word = size_of::<*mut ffi::PyObject>();
        let mut places = [0; FIELDS];
        for (place, field) in places.iter_mut().zip(&objects) {
            let is_field = |at: &usize| {
                // SAFETY: an object has at least the bytes that its class states, and `at` is a
                // multiple of a word's size below them.
                let found = unsafe {
                    message
                        .as_ptr()
                        .cast::<u8>()
                        .add(*at)
                        .cast::<usize>()
                        .read()
                };
                found == field.as_ptr() as usize
            };
            let mut found = (1..size / word).map(|at| at * word).filter(is_field);
            let (Some(first), None) = (found.next(), found.next()) else {
                return Ok(None);
            };
            *place = first;
        }
        let class = class.cast_into::<PyType>()?.unbind();
        Ok(Some(Self { class, places }))
    }
}

/// An exact `int` of 64 bits.
#[inline]
pub fn integer(value: Borrowed<'_, '_, PyAny>) -> Option<i64> {
    // SAFETY: both take any object; the second does not run Python code for an exact int.
    unsafe {
        if ffi::PyLong_CheckExact(value.as_ptr()) == 0 {
            return None;
        }
        let found = ffi::PyLong_AsLongLong(value.as_ptr());
        if found == -1 && !ffi::PyErr_Occurred().is_null() {
            ffi::PyErr_Clear();
            return None;
        }
        Some(found)
    }
}

/// The UTF-8 of an exact `str`; `None` for another object, and for text that has no UTF-8.
#[inline]
pub fn text<'a>(value: Borrowed<'a, '_, PyAny>) -> Option<&'a str> {
    if !value.is_exact_instance_of::<PyString>() {
        return None;
    }
    let mut size = 0;
    // SAFETY: a text keeps its UTF-8, whose size is told, as long as it lives, which is `'a`.
    unsafe {
        let begin = ffi::PyUnicode_AsUTF8AndSize(value.as_ptr(), &raw mut size);
        if begin.is_null() {
            ffi::PyErr_Clear();
            return None;
        }
        let utf8 = std::slice::from_raw_parts(begin.cast(), usize::try_from(size).ok()?);
        Some(std::str::from_utf8_unchecked(utf8))
    }
}

/// The bytes of an exact `bytes`.
#[inline]
pub fn bytes<'a>(value: Borrowed<'a, '_, PyAny>) -> Option<&'a [u8]> {
    if !value.is_exact_instance_of::<PyBytes>() {
        return None;
    }
    // SAFETY: its bytes stay as they are as long as it lives, which is `'a`.
    unsafe {
        let begin = ffi::PyBytes_AsString(value.as_ptr());
        let size = usize::try_from(ffi::PyBytes_Size(value.as_ptr())).ok()?;
        Some(std::slice::from_raw_parts(begin.cast(), size))
    }
}

/// See `reput.record.ids.pack_host`; `None` for what is no pair of an IPv4 address and a port.
fn packed_host(host: Borrowed<'_, '_, PyAny>) -> Option<[u8; 8]> {
    let pair = host.cast_exact::<PyTuple>().ok()?;
    if pair.len() != 2 {
        return None;
    }
    let address = pair.get_borrowed_item(0).ok()?;
    let address: Ipv4Addr = text(address)?.parse().ok()?;
    let port = u16::try_from(integer(pair.get_borrowed_item(1).ok()?)?).ok()?;
    let mut packed = [0; 8];
    packed[..4].copy_from_slice(&address.octets());
    packed[4..].copy_from_slice(&i32::from(port).to_be_bytes());
    Some(packed)
}
