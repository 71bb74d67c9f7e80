//! Product names of executables: each image is read once, beside the passes and at most a few for each, and results stay
//! in bounded memory. A product is a text that the program's author chose, so it is no key for grouping or identity.

use std::collections::{HashMap, VecDeque};

use super::records::push_text;

/// Images that are asked for in a pass; others follow in later ones.
const MOST_ASKS: u32 = 4;
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

/// Finds and reads images. Anyone who has a file open can delay its reader for any time, so this only submits a request;
/// the answer comes later.
pub trait Images {
    /// Path of the image of a process. `None`: the process is gone, or the system refuses.
    fn path(&self, pid: u32) -> Option<Vec<u16>>;

    /// Requests the product name in an image. False: the reader is busy, and the path was not taken.
    fn ask(&mut self, path: &[u16]) -> bool;

    /// An answer that has arrived: the path, and the product. Empty: there is none, or the image must not be read.
    fn answer(&mut self) -> Option<(Vec<u16>, String)>;
}

/// Product names by path of the image; empty: the image has none.
#[derive(Debug, Default)]
pub struct Products {
    known: HashMap<Box<[u16]>, Box<str>>,
    known_bytes: usize,
    /// Paths that were asked for and have no answer; at most as many as are asked at a time.
    asked: Vec<Vec<u16>>,
    asks_left: u32,
    waiting: VecDeque<u32>,
}

impl Products {
    /// Begins a pass, and takes the answers that have arrived.
    pub fn begin(&mut self, images: &mut impl Images) {
        self.asks_left = MOST_ASKS;
        while let Some((path, product)) = images.answer() {
            self.asked.retain(|one| *one != path);
            self.keep(path, product.into());
        }
    }

    /// Product of a process that is new; empty if it has none, or if it has to wait.
    pub fn of_new(&mut self, pid: u32, images: &mut impl Images) -> Box<str> {
        let found = self.find(pid, images);
        if found.is_none() && self.waiting.len() < MOST_WAITING {
            self.waiting.push_back(pid);
        }
        found.unwrap_or_default()
    }

    /// Hands over the products of processes that waited, with the process's id. To be called before the first new process of a pass.
    pub fn of_waiting(&mut self, images: &mut impl Images, mut hand_over: impl FnMut(u32, &str)) {
        for _ in 0..self.waiting.len().min(MOST_LOOKUPS) {
            let Some(pid) = self.waiting.pop_front() else { return };
            match self.find(pid, images) {
                Some(product) if product.is_empty() => {}
                Some(product) => hand_over(pid, &product),
                None => self.waiting.push_back(pid),
            }
            // Nothing that is not known can be asked for in this pass.
            if self.asks_left == 0 {
                return;
            }
        }
    }

    /// `None`: the product is not known yet.
    fn find(&mut self, pid: u32, images: &mut impl Images) -> Option<Box<str>> {
        let Some(path) = images.path(pid) else { return Some(Box::default()) };
        if let Some(product) = self.known.get(&*path) {
            return Some(product.clone());
        }
        if self.asks_left > 0 && !self.asked.contains(&path) {
            if images.ask(&path) {
                self.asks_left -= 1;
                self.asked.push(path);
            } else {
                self.asks_left = 0;
            }
        }
        None
    }

    fn keep(&mut self, path: Vec<u16>, product: Box<str>) {
        let bytes = ENTRY_BYTES + size_of_val(&*path) + product.len();
        if self.known_bytes + bytes > MOST_BYTES {
            self.known.clear();
            self.known_bytes = 0;
        }
        self.known_bytes += bytes;
        self.known.insert(path.into(), product);
    }
}

/// Whether a path `C:\\…` names the same file for every function of Windows. The older ones drop spaces and dots at the end of a name, and take
/// some names for devices, with any extension.
pub fn is_plain_path(path: &[u16]) -> bool {
    let Some(rest) = path.get(3..) else { return false };
    rest.split(|unit| *unit == u16::from(b'\\')).all(|name| {
        let name = String::from_utf16_lossy(name);
        !name.ends_with([' ', '.'])
            && !name.contains([':', '/', '\0'])
            && !name.is_empty()
            && !is_device(&name)
    })
}

fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_ascii_lowercase();
    let is_number =
        |number: &str| matches!(number, "¹" | "²" | "³") || matches!(number.as_bytes(), [b'0'..=b'9']);
    let is_port = |port| stem.strip_prefix(port).is_some_and(is_number);
    ["con", "prn", "aux", "nul", "conin$", "conout$"].contains(&&*stem) || is_port("com") || is_port("lpt")
}

/// The text of a version resource up to its first 0, without spaces at its ends, as many whole characters as a name may have.
pub fn product_text(bytes: &[u8]) -> String {
    let mut whole = String::new();
    let end = bytes.as_chunks::<2>().0.iter().position(|unit| *unit == [0, 0]);
    push_text(&bytes[..end.map_or(bytes.len(), |units| units * 2)], &mut whole);
    let text = whole.trim();
    text[..text.floor_char_boundary(MAX_TEXT_BYTES)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Process `n` runs image `n / 10`; image 0 has no product, 99,999 no process. It answers with the next pass.
    #[derive(Default)]
    struct Disk {
        asked: Vec<u16>,
        answers: VecDeque<(Vec<u16>, String)>,
        is_stuck: bool,
    }

    impl Images for Disk {
        fn path(&self, pid: u32) -> Option<Vec<u16>> {
            (pid < 1_000_000).then(|| vec![u16::try_from(pid / 10).unwrap(); 40])
        }

        fn ask(&mut self, path: &[u16]) -> bool {
            if self.is_stuck {
                return false;
            }
            self.asked.push(path[0]);
            let product = if path[0] == 0 { String::new() } else { format!("Größe {}", path[0]) };
            self.answers.push_back((path.to_vec(), product));
            true
        }

        fn answer(&mut self) -> Option<(Vec<u16>, String)> {
            self.answers.pop_front()
        }
    }

    fn waiting(products: &mut Products, disk: &mut Disk) -> Vec<(u32, String)> {
        let mut found = Vec::new();
        products.begin(disk);
        products.of_waiting(disk, |pid, product| found.push((pid, product.to_owned())));
        found
    }

    #[test]
    fn each_image_is_read_once_and_a_few_in_a_pass() {
        let (mut products, mut disk) = (Products::default(), Disk::default());
        products.begin(&mut disk);
        assert!((0..70).all(|pid| products.of_new(pid, &mut disk).is_empty()));
        assert_eq!(disk.asked, [0, 1, 2, 3], "no more in this pass");
        let first = waiting(&mut products, &mut disk);
        assert_eq!(
            (first.len(), &first[0], &first[29]),
            (30, &(10, "Größe 1".into()), &(39, "Größe 3".into()))
        );
        let later = waiting(&mut products, &mut disk);
        assert_eq!(
            (later.len(), &later[0], &later[29]),
            (30, &(40, "Größe 4".into()), &(69, "Größe 6".into()))
        );
        assert_eq!(waiting(&mut products, &mut disk), []);
        products.begin(&mut disk);
        assert_eq!((&*products.of_new(3, &mut disk), &*products.of_new(44, &mut disk)), ("", "Größe 4"));
        assert_eq!(disk.asked, [0, 1, 2, 3, 4, 5, 6], "once each, without a product too");
    }

    #[test]
    fn a_process_that_ended_while_it_waited_is_forgotten() {
        let (mut products, mut disk) = (Products::default(), Disk::default());
        products.waiting.extend([2_000_000, 20]);
        assert_eq!(waiting(&mut products, &mut disk), []);
        assert_eq!(waiting(&mut products, &mut disk), [(20, "Größe 2".into())]);
        assert_eq!(&*products.of_new(2_000_000, &mut disk), "");
        assert!(products.waiting.is_empty() && disk.asked.len() == 1);
    }

    #[test]
    fn what_is_kept_waiting_costs_names_and_one_question_a_pass() {
        let (mut products, mut disk) = (Products::default(), Disk { is_stuck: true, ..Disk::default() });
        products.begin(&mut disk);
        assert!((10..9_000).all(|pid| products.of_new(pid, &mut disk).is_empty()));
        assert_eq!((products.waiting.len(), products.asked.len()), (MOST_WAITING, 0));
        assert_eq!(waiting(&mut products, &mut disk), []);
        disk.is_stuck = false;
        waiting(&mut products, &mut disk);
        assert!(!waiting(&mut products, &mut disk).is_empty(), "it goes on");
    }

    #[test]
    fn memory_of_what_was_read_and_of_what_waits_is_bounded() {
        let (mut products, mut disk) = (Products::default(), Disk::default());
        let mut most = 0;
        for image in 0..3_000 {
            products.begin(&mut disk);
            products.of_new(image * 10, &mut disk);
            let held = products.known.iter().map(|(path, product)| size_of_val(&**path) + product.len());
            let held: usize = held.sum();
            assert_eq!(products.known_bytes, held + products.known.len() * ENTRY_BYTES);
            most = most.max(products.known_bytes);
            assert!(products.asked.len() <= 1);
        }
        assert!(most <= MOST_BYTES && most > MOST_BYTES / 2, "{most}");
        assert_eq!(disk.asked.len(), 3_000);
    }

    #[test]
    fn a_steady_pass_allocates_nothing_and_asks_nothing() {
        let (mut products, mut disk) = (Products::default(), Disk::default());
        products.begin(&mut disk);
        products.of_new(20, &mut disk);
        waiting(&mut products, &mut disk);
        let before = crate::counting::allocations();
        products.begin(&mut disk);
        products.of_waiting(&mut disk, |_, _| panic!("none waits"));
        assert_eq!(crate::counting::allocations(), before);
    }

    #[test]
    fn a_path_that_windows_would_change_is_not_plain() {
        let is_plain = |path: &str| is_plain_path(&path.encode_utf16().collect::<Vec<_>>());
        for plain in [r"C:\a.exe", r"C:\Größe 3\comp\com12.exe", r"c:\console\nul2.exe", r"C:\lpt\..a.exe"]
        {
            assert!(is_plain(plain), "{plain}");
        }
        for other in [
            "",
            r"C:\",
            r"C:\e \a.exe",
            r"C:\e.\a.exe",
            r"C:\a.exe.",
            r"C:\a\..\b.exe",
            r"C:\a:b.exe",
            r"C:\a/b.exe",
            r"C:\com3.exe",
            r"C:\COM¹.exe",
            r"C:\u\Nul",
            r"C:\lpt1 .x.exe",
            r"C:\aux.exe\a.exe",
            r"C:\CONIN$",
            r"C:\a\\b",
        ] {
            assert!(!is_plain(other), "{other}");
        }
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
