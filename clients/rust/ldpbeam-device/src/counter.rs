//! A number in a file, which only grows (docs/device-state.md): the sentinel.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::disk::{At, StoreError, Stored, damaged, open_file, write_file};

/// A place for a number: one block of a disk, so that a write that is cut off leaves the number before.
const BLOCK: usize = 4096;

pub(crate) struct FileCounter {
    pub path: PathBuf,
    /// The place of the newest number.
    newest: usize,
}

impl FileCounter {
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), newest: 1 }
    }

    /// The number; None where there is no file.
    pub fn read(&mut self) -> Stored<Option<u64>> {
        let mut content = Vec::new();
        match open_file(&self.path, OpenOptions::new().read(true)) {
            Err(error) if is_missing(&error) => return Ok(None),
            opened => opened?.take(2 * BLOCK as u64).read_to_end(&mut content).at(&self.path)?,
        };
        let numbers = [0, 1].into_iter().filter_map(|place| Some((number_at(&content, place * BLOCK)?, place)));
        let (number, newest) = numbers.max().ok_or_else(|| damaged("neither of its two places holds a number"))?;
        self.newest = newest;
        Ok(Some(number))
    }

    /// Put a larger number in, after [`Self::read`]; it outlasts a kill, and the file a loss of power.
    pub fn write(&mut self, number: u64) -> Stored<()> {
        let (at, content) = ((1 - self.newest) * BLOCK, packed(number));
        match open_file(&self.path, OpenOptions::new().write(true)) {
            Err(error) if is_missing(&error) => {
                let mut blocks = vec![0; 2 * BLOCK];
                blocks[at..at + content.len()].copy_from_slice(&content);
                write_file(&self.path, &blocks)?;
            }
            opened => {
                let mut file = opened?;
                file.seek(SeekFrom::Start(at as u64)).and_then(|_| file.write_all(&content)).at(&self.path)?;
            }
        }
        self.newest = 1 - self.newest;
        Ok(())
    }
}

fn is_missing(error: &StoreError) -> bool {
    matches!(error, StoreError::Disk(error, _) if error.kind() == ErrorKind::NotFound)
}

fn packed(number: u64) -> Vec<u8> {
    let digest = Sha256::new_with_prefix(b"ldpbeam counter\0").chain_update(number.to_le_bytes()).finalize();
    [number.to_le_bytes().as_slice(), &digest].concat()
}

fn number_at(content: &[u8], at: usize) -> Option<u64> {
    let found = content.get(at..at + 40)?;
    let number = u64::from_le_bytes(found[..8].try_into().expect("eight bytes"));
    (packed(number) == found).then_some(number)
}
