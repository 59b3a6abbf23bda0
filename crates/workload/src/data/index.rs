//! Index of the rows of a data set.

/// Position of one row, in 16 bytes, since a set may have many millions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    /// Offset of the first byte among the bytes of all files.
    pub(super) at: u64,
    pub(super) len: u32,
    /// Line in its file, from 1.
    pub(super) line: u32,
}

/// Rows of every sample.
#[derive(Debug, Default)]
pub(super) struct Index {
    entries: Vec<Entry>,
    /// First entry of each sample; `None` if each sample is one row.
    starts: Option<Vec<u32>>,
}

impl Index {
    /// Creates an index in which each row is a sample.
    pub(super) fn single(mut entries: Vec<Entry>) -> Self {
        entries.shrink_to_fit();
        Self { entries, starts: None }
    }

    /// Creates an index in which rows with equal numbers form a sample, ordered by number and then by row.
    pub(super) fn grouped(entries: &[Entry], number: &[u32]) -> Self {
        let mut by: Vec<usize> = (0..entries.len()).collect();
        by.sort_by_key(|i| number[*i]);
        let mut starts: Vec<u32> = Vec::new();
        let mut last = None;
        for (place, i) in by.iter().enumerate() {
            if last != Some(number[*i]) {
                starts.push(place as u32);
                last = Some(number[*i]);
            }
        }
        Self { entries: by.into_iter().map(|i| entries[i]).collect(), starts: Some(starts) }
    }

    pub(super) fn len(&self) -> usize {
        self.starts.as_ref().map_or(self.entries.len(), Vec::len)
    }

    /// Returns the rows of a sample.
    pub(super) fn rows(&self, k: usize) -> Option<&[Entry]> {
        let Some(starts) = &self.starts else { return self.entries.get(k..=k) };
        let end = starts.get(k + 1).map_or(self.entries.len(), |e| *e as usize);
        self.entries.get(*starts.get(k)? as usize..end)
    }

    /// Drops the samples with `false`.
    pub(super) fn retain(&mut self, keep: &[bool]) {
        let mut entries = Vec::new();
        let mut starts = Vec::new();
        for k in (0..self.len()).filter(|k| keep[*k]) {
            starts.push(entries.len() as u32);
            entries.extend_from_slice(self.rows(k).unwrap_or_default());
        }
        let single = starts.len() == entries.len();
        *self = Self { entries, starts: (!single).then_some(starts) };
    }

    /// Returns the memory in bytes.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + self.starts.as_ref().map_or(0, |s| s.capacity() * 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(n: u64) -> Vec<Entry> {
        (0..n).map(|at| Entry { at, len: 1, line: at as u32 + 1 }).collect()
    }

    fn samples(index: &Index) -> Vec<Vec<u64>> {
        (0..index.len()).map(|k| index.rows(k).unwrap().iter().map(|e| e.at).collect()).collect()
    }

    #[test]
    fn rows_with_equal_numbers_form_a_sample() {
        assert_eq!(size_of::<Entry>(), 16);
        let mut index = Index::grouped(&entries(5), &[0, 1, 0, 2, 1]);
        assert_eq!(samples(&index), [vec![0, 2], vec![1, 4], vec![3]]);
        index.retain(&[false, true, true]);
        assert_eq!(samples(&index), [vec![1, 4], vec![3]]);
        assert!(index.rows(2).is_none());
        index.retain(&[false, true]);
        assert_eq!((samples(&index), index.starts.is_none()), (vec![vec![3]], true));
        assert_eq!(samples(&Index::single(entries(2))), [vec![0], vec![1]]);
    }
}
