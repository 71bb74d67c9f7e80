//! Product names of executables: each image is read once, at most a few in a pass, and what was read is kept in bounded memory. A product
//! is a text that the program's author chose, so nothing is grouped or found to be the same by it.

use std::collections::{HashMap, VecDeque};

use super::text::push_text;

/// Images that are read in a pass; others follow in later ones.
const MOST_READS: u32 = 4;
/// Processes that are looked up again in a pass: those of images that are known cost no reading.
const MOST_LOOKUPS: usize = 256;
/// Processes that wait for their image to be read. Further ones have no data.
const MOST_WAITING: usize = 4_096;
/// Memory of paths and products; beyond it all are forgotten, and read again where a process begins.
const MOST_BYTES: usize = 256 << 10;
/// Memory of an image beside its path and its product: place in the map, allocator's share.
const ENTRY_BYTES: usize = 96;
/// Longest product, as the wire has of every name.
const MAX_TEXT_BYTES: usize = 255;

/// Where images are, and what is in them.
pub trait Images {
    /// Path of the image of a process. `None`: the process is gone, or the system refuses.
    fn path(&self, pid: u32) -> Option<Vec<u16>>;

    /// Product name in an image. `None`: it has none, or is not to be read.
    fn product(&self, path: &[u16]) -> Option<String>;
}

/// Products by path of the image; empty: none.
#[derive(Debug, Default)]
pub struct Products {
    known: HashMap<Box<[u16]>, Box<str>>,
    known_bytes: usize,
    reads_left: u32,
    waiting: VecDeque<u32>,
}

impl Products {
    /// At the start of a pass.
    pub fn begin(&mut self) {
        self.reads_left = MOST_READS;
    }

    /// Product of a process that is new; empty if it has none, or if it has to wait.
    pub fn of_new(&mut self, pid: u32, images: &impl Images) -> Box<str> {
        let found = self.find(pid, images);
        if found.is_none() && self.waiting.len() < MOST_WAITING {
            self.waiting.push_back(pid);
        }
        found.unwrap_or_default()
    }

    /// Hands over the products of processes that waited, with the process's id. To be called before the first new process of a pass.
    pub fn of_waiting(&mut self, images: &impl Images, mut hand_over: impl FnMut(u32, &str)) {
        for _ in 0..MOST_LOOKUPS {
            let Some(&pid) = self.waiting.front() else { return };
            let Some(product) = self.find(pid, images) else { return };
            self.waiting.pop_front();
            if !product.is_empty() {
                hand_over(pid, &product);
            }
        }
    }

    /// `None`: the image is to be read in a later pass.
    fn find(&mut self, pid: u32, images: &impl Images) -> Option<Box<str>> {
        let Some(path) = images.path(pid) else { return Some(Box::default()) };
        if let Some(product) = self.known.get(&*path) {
            return Some(product.clone());
        }
        self.reads_left = self.reads_left.checked_sub(1)?;
        let product: Box<str> = images.product(&path).unwrap_or_default().into();
        let bytes = ENTRY_BYTES + size_of_val(&*path) + product.len();
        if self.known_bytes + bytes > MOST_BYTES {
            self.known.clear();
            self.known_bytes = 0;
        }
        self.known_bytes += bytes;
        self.known.insert(path.into(), product.clone());
        Some(product)
    }
}

/// The text of a version resource up to its first 0, without spaces at its ends, as many whole characters as a name may have.
#[must_use]
pub fn product_text(bytes: &[u8]) -> String {
    let mut whole = String::new();
    let end = bytes.as_chunks::<2>().0.iter().position(|unit| *unit == [0, 0]);
    push_text(&bytes[..end.map_or(bytes.len(), |units| units * 2)], &mut whole);
    let text = whole.trim();
    text[..text.floor_char_boundary(MAX_TEXT_BYTES)].to_owned()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Process `n` runs image `n / 10`; image 0 has no product, 9 no process.
    #[derive(Default)]
    struct Disk {
        read: RefCell<Vec<u16>>,
    }

    impl Images for Disk {
        fn path(&self, pid: u32) -> Option<Vec<u16>> {
            (pid < 1_000_000).then(|| vec![u16::try_from(pid / 10).unwrap(); 40])
        }

        fn product(&self, path: &[u16]) -> Option<String> {
            self.read.borrow_mut().push(path[0]);
            (path[0] != 0).then(|| format!("Größe {}", path[0]))
        }
    }

    fn waiting(products: &mut Products, disk: &Disk) -> Vec<(u32, String)> {
        let mut found = Vec::new();
        products.begin();
        products.of_waiting(disk, |pid, product| found.push((pid, product.to_owned())));
        found
    }

    #[test]
    fn each_image_is_read_once_and_a_few_in_a_pass() {
        let (mut products, disk) = (Products::default(), Disk::default());
        products.begin();
        let first: Vec<_> = (0..70).map(|pid| products.of_new(pid, &disk)).collect();
        assert_eq!((&*first[9], &*first[10], &*first[39], &*first[40]), ("", "Größe 1", "Größe 3", ""));
        assert_eq!(*disk.read.borrow(), [0, 1, 2, 3], "no more in this pass");
        let later = waiting(&mut products, &disk);
        assert_eq!(
            (later.len(), &later[0], &later[29]),
            (30, &(40, "Größe 4".into()), &(69, "Größe 6".into()))
        );
        assert_eq!(waiting(&mut products, &disk), []);
        products.begin();
        assert_eq!((&*products.of_new(3, &disk), &*products.of_new(44, &disk)), ("", "Größe 4"));
        assert_eq!(*disk.read.borrow(), [0, 1, 2, 3, 4, 5, 6], "once each, without a product too");
    }

    #[test]
    fn a_process_that_ended_while_it_waited_is_forgotten() {
        let (mut products, disk) = (Products::default(), Disk::default());
        products.waiting.extend([2_000_000, 20]);
        assert_eq!(waiting(&mut products, &disk), [(20, "Größe 2".into())]);
        assert_eq!(&*products.of_new(2_000_000, &disk), "");
        assert!(products.waiting.is_empty() && disk.read.borrow().len() == 1);
    }

    #[test]
    fn memory_of_what_was_read_and_of_what_waits_is_bounded() {
        let (mut products, disk) = (Products::default(), Disk::default());
        let mut most = 0;
        for image in 0..3_000 {
            products.begin();
            products.of_new(image * 10, &disk);
            let held = products.known.iter().map(|(path, product)| size_of_val(&**path) + product.len());
            let held: usize = held.sum();
            assert_eq!(products.known_bytes, held + products.known.len() * ENTRY_BYTES);
            most = most.max(products.known_bytes);
        }
        assert!(most <= MOST_BYTES && most > MOST_BYTES / 2, "{most}");
        assert_eq!(disk.read.borrow().len(), 3_000);
        (300_000..310_000).for_each(|pid| _ = products.of_new(pid, &disk));
        assert_eq!(products.waiting.len(), MOST_WAITING);
        waiting(&mut products, &disk);
        assert_eq!(disk.read.borrow().len(), 3_000 + 3 + 4);
    }

    #[test]
    fn a_steady_pass_allocates_nothing_and_asks_nothing() {
        let (mut products, disk) = (Products::default(), Disk::default());
        products.begin();
        products.of_new(20, &disk);
        let before = crate::counting::allocations();
        products.begin();
        products.of_waiting(&disk, |_, _| panic!("none waits"));
        assert_eq!(crate::counting::allocations(), before);
    }

    #[test]
    fn a_product_is_cut_as_other_names_are() {
        let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
        assert_eq!(product_text(&utf16(" Größe® 漢字 \0rest")), "Größe® 漢字");
        assert_eq!(product_text(&utf16("")), "");
        assert_eq!(product_text(&[&utf16("x")[..], &[0x00, 0xd8], &utf16("y")].concat()), "x\u{fffd}y");
        let long = product_text(&utf16(&"漢".repeat(9_000)));
        assert_eq!((long.len(), long.chars().count()), (255, 85));
    }
}
