//! The bytes of two small files, checked in and encoded a second time from the tables of `docs/format` alone: today's
//! encoder gives them, today's decoder reads them, in both byte orders. In one file the step records contain all entries, in the
//! other they refer to the process groups.
//!
//! `WRITE_GOLDEN=1 cargo test -p thalweg-bp --test golden` writes the files anew, which is a change of the format.
// The tables of the test's own file are tuples.
#![allow(clippy::type_complexity)]

mod common;

use common::*;
use thalweg_bp::extension::Tag;
use thalweg_bp::live::{self, Live};
use thalweg_bp::scan::scan;
use thalweg_bp::step_record::Groups;
use thalweg_bp::wire::Cursor;
use thalweg_types::{AttributeValue, ByteOrder, Value};

/// Each checked-in file, and what its step records do.
const FILES: [(&str, Groups); 2] = [
    (concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/four-steps.bp"), Groups::Elsewhere),
    (concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/four-steps-referring.bp"), Groups::Here),
];

/// Fields of either byte order, and checksums bit by bit.
struct Pen {
    big: bool,
    out: Vec<u8>,
}

impl Pen {
    fn new(big: bool) -> Pen {
        Pen { big, out: Vec::new() }
    }

    fn number<const N: usize>(&mut self, little: [u8; N]) -> &mut Pen {
        let mut bytes = little;
        if self.big {
            bytes.reverse();
        }
        self.out.extend(bytes);
        self
    }

    fn n1(&mut self, v: u8) -> &mut Pen {
        self.number([v])
    }
    fn n2(&mut self, v: usize) -> &mut Pen {
        self.number((v as u16).to_le_bytes())
    }
    fn n4(&mut self, v: u32) -> &mut Pen {
        self.number(v.to_le_bytes())
    }
    fn n8(&mut self, v: u64) -> &mut Pen {
        self.number(v.to_le_bytes())
    }
    fn real(&mut self, v: f64) -> &mut Pen {
        self.number(v.to_le_bytes())
    }
    fn raw(&mut self, bytes: &[u8]) -> &mut Pen {
        self.out.extend_from_slice(bytes);
        self
    }
    fn text(&mut self, v: &str) -> &mut Pen {
        self.n2(v.len()).raw(v.as_bytes())
    }
    fn len(&self) -> u64 {
        self.out.len() as u64
    }
    fn inside(&self, write: impl FnOnce(&mut Pen)) -> Vec<u8> {
        let mut pen = Pen::new(self.big);
        write(&mut pen);
        pen.out
    }
}

/// CRC-32C by its polynomial.
fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 & 0u32.wrapping_sub(crc & 1)))
    })
}

/// One entry of the variable or attribute index: what stands in front of its sets, and these.
struct Entry {
    id: u32,
    path: &'static str,
    name: &'static str,
    code: u8,
    count: u64,
    sets: Vec<u8>,
}

#[derive(Default)]
struct Lists {
    groups: Vec<u8>,
    group_count: u64,
    variables: Vec<Entry>,
    attributes: Vec<Entry>,
    complex: Vec<u8>,
    sums: Vec<u8>,
}

fn add(list: &mut Vec<Entry>, id: u32, path: &'static str, name: &'static str, code: u8, set: &[u8]) {
    match list.iter_mut().find(|e| e.id == id) {
        Some(entry) => {
            entry.count += 1;
            entry.sets.extend_from_slice(set);
        }
        None => list.push(Entry { id, path, name, code, count: 1, sets: set.to_vec() }),
    }
}

fn set(pen: &Pen, count: u8, write: impl FnOnce(&mut Pen)) -> Vec<u8> {
    let body = pen.inside(write);
    pen.inside(|p| {
        p.n1(count).n4(body.len() as u32).raw(&body);
    })
}

fn place(p: &mut Pen, record: u64, payload: u64, step: u32) {
    p.n1(3).n8(record).n1(6).n8(payload).n1(7).n4(u32::MAX).n1(8).n4(step + 1);
}

fn dimensions(p: &mut Pen, shape: &[[u64; 3]]) {
    p.n1(4).n1(shape.len() as u8).n2(24 * shape.len());
    shape.iter().flatten().for_each(|n| {
        p.n8(*n);
    });
}

fn write_group(file: &mut Pen, step: u32, rank: u32, lists: &mut [&mut Lists]) {
    let start = file.len();
    let big = file.big;
    let mut body = Pen::new(big);
    body.n8(0).raw(b"n").text("heat").n4(0).text("").n4(step + 1).n1(1).n2(6).n1(0).text("MPI");
    // Groups, in front of everything else, as they come.
    let entry = body.inside(|p| {
        p.text("heat").raw(b"n").n4(rank).text("").n4(step + 1).n8(start);
    });
    for l in lists.iter_mut() {
        let entry = body.inside(|p| {
            p.n2(entry.len()).raw(&entry);
        });
        l.groups.extend(entry);
        l.group_count += 1;
    }

    let v: Vec<f64> = (0..6).map(|i| f64::from(i) + 10.0 * f64::from(step) + 0.5 * f64::from(rank)).collect();
    let big_values = [i64::MAX, i64::MAX - 1, i64::from(step)];
    let exact: i128 = big_values.iter().map(|v| i128::from(*v)).sum();
    let note = format!("step {step}");
    type Shape = Vec<[u64; 3]>;
    let blocks: Vec<(u32, &'static str, u8, Option<Shape>, Vec<u8>, Vec<u8>, u32)> = vec![
        (
            0,
            "nx",
            2,
            None,
            body.inside(|p| {
                p.n4(6);
            }),
            vec![],
            0,
        ),
        (1, "note", 9, None, note.as_bytes().to_vec(), vec![], 0),
        (
            2,
            "v",
            6,
            Some(vec![[1, 2, u64::from(rank)], [6, 6, 0]]),
            body.inside(|p| {
                v.iter().for_each(|x| {
                    p.real(*x);
                })
            }),
            body.inside(|p| {
                p.real(v[0]).real(v[5]).n4(6).real(v.iter().sum()).real(v.iter().map(|x| x * x).sum()).n1(1);
            }),
            0x5f,
        ),
        (
            3,
            "z",
            10,
            Some(vec![[4, 0, 0]]),
            body.inside(|p| {
                for i in 1..5 {
                    p.number((3.0 * i as f32).to_le_bytes()).number((-4.0 * i as f32).to_le_bytes());
                }
            }),
            vec![],
            0,
        ),
        (
            4,
            "big",
            4,
            Some(vec![[3, 0, 0]]),
            body.inside(|p| {
                big_values.iter().for_each(|x| {
                    p.n8(*x as u64);
                })
            }),
            body.inside(|p| {
                let squares: f64 = big_values.iter().map(|x| *x as f64 * *x as f64).sum();
                p.n8(u64::from(step)).n8(i64::MAX as u64).n4(3).real(exact as f64).real(squares).n1(1);
            }),
            0x5f,
        ),
    ];
    let section = body.len() as usize;
    body.n4(5).n8(0);
    let mut sums = Vec::new();
    for (id, name, code, shape, payload, statistics, bitmap) in &blocks {
        let record = body.len();
        let array = |p: &mut Pen| {
            dimensions(p, shape.as_ref().unwrap());
            p.n1(9).n4(*bitmap).n1(10).raw(statistics);
        };
        let head = body.inside(|p| {
            p.n4(*id).text(name).text("/fields").n1(*code).raw(b"n");
            let n = shape.as_ref().map_or(0, Vec::len);
            p.n1(n as u8).n2(27 * n);
            shape.iter().flatten().flatten().for_each(|d| {
                p.raw(b"n").n8(*d);
            });
            let set = match shape {
                Some(_) => set(p, 3, array),
                None => set(p, 0, |_| ()),
            };
            p.raw(&set);
        });
        body.n8((8 + head.len() + payload.len()) as u64).raw(&head);
        let at = body.len();
        body.raw(payload);
        sums.push((at, payload.len() as u64, crc(payload)));
        let index_set = match shape {
            Some(_) => set(&body, 7, |p| {
                place(p, start + record, start + at, step);
                array(p);
            }),
            None => set(&body, 5, |p| {
                place(p, start + record, start + at, step);
                p.n1(0);
                if *code == 9 {
                    p.text(&note)
                } else {
                    p.n4(6)
                };
            }),
        };
        let key = body.inside(|p| {
            p.n4(u32::MAX).n4(0).n8(start + at);
        });
        for l in lists.iter_mut() {
            add(&mut l.variables, *id, "/fields", name, *code, &index_set);
            match *name {
                "z" => l.complex.extend(body.inside(|p| {
                    p.raw(&key).n8(4);
                    for (min, max, sum, squares) in
                        [(5.0, 20.0, 50.0, 750.0), (3.0, 12.0, 30.0, 270.0), (-16.0, -4.0, -40.0, 480.0)]
                    {
                        p.real(min).real(max).real(sum).real(squares);
                    }
                })),
                "big" => l.sums.extend(body.inside(|p| {
                    p.raw(&key).number(exact.to_le_bytes());
                })),
                _ => {}
            }
        }
    }
    let length = body.inside(|p| {
        p.n8(body.len() - section as u64);
    });
    body.out[section + 4..section + 12].copy_from_slice(&length);

    let section = body.len() as usize;
    let attributes = if step == 0 && rank == 0 { 4 } else { 0 };
    body.n4(attributes).n8(0);
    if attributes > 0 {
        let texts = |p: &mut Pen| {
            p.n4(2).n4(4).raw(b"Ada\0").n4(1).raw(b"\0");
        };
        let limits = |p: &mut Pen| {
            p.real(-1.5).real(2.0);
        };
        let records: [(u32, &'static str, &'static str, u8, Vec<u8>, Vec<u8>); 4] = [
            (
                5,
                "units",
                "/fields/v",
                9,
                body.inside(|p| {
                    p.raw(b"n").n1(9).n4(1).raw(b"K");
                }),
                body.inside(|p| {
                    p.n1(0).text("K");
                }),
            ),
            (
                6,
                "limits",
                "",
                6,
                body.inside(|p| {
                    p.raw(b"n").n1(6).n4(16);
                    limits(p);
                }),
                body.inside(|p| {
                    dimensions(p, &[[2, 2, 0]]);
                    p.n1(0);
                    limits(p);
                }),
            ),
            (
                7,
                "authors",
                "",
                12,
                body.inside(|p| {
                    p.raw(b"n").n1(12);
                    texts(p);
                }),
                body.inside(|p| {
                    dimensions(p, &[[2, 2, 0]]);
                    p.n1(0).text("Ada").text("");
                }),
            ),
            (
                8,
                "points",
                "",
                255,
                body.inside(|p| {
                    p.raw(b"y").n4(0);
                }),
                body.inside(|p| {
                    p.n1(5).n4(0);
                }),
            ),
        ];
        for (id, name, path, code, value, index_value) in records {
            let record = body.len();
            let bytes = body.inside(|p| {
                p.n4(id).text(name).text(path).raw(&value);
            });
            body.n4(bytes.len() as u32).raw(&bytes);
            let count = if (6..8).contains(&id) { 6 } else { 5 };
            let index_set = set(&body, count, |p| {
                place(p, start + record, start + body.len(), step);
                p.raw(&index_value);
            });
            for l in lists.iter_mut() {
                add(&mut l.attributes, id, path, name, code, &index_set);
            }
        }
    }
    let length = body.inside(|p| {
        p.n8(body.len() - section as u64);
    });
    body.out[section + 4..section + 12].copy_from_slice(&length);

    let length = body.len() + 68 + 20 * sums.len() as u64;
    let first = body.inside(|p| {
        p.n8(length);
    });
    body.out[..8].copy_from_slice(&first);
    let mut framing = Vec::new();
    let mut done = 0;
    for (at, n, _) in &sums {
        framing.extend_from_slice(&body.out[done..*at as usize]);
        done = (at + n) as usize;
    }
    framing.extend_from_slice(&body.out[done..]);
    let trailer = body.inside(|p| {
        p.raw(b"TWPGTRL1").n8(0x0123_4567_89ab_cdef).n8(start).n8(length).n4(rank).n4(2).n4(step + 1).n4(u32::MAX);
        p.n4(sums.len() as u32).n4(crc(&framing));
        sums.iter().for_each(|(at, n, crc)| {
            p.n8(*at).n8(*n).n4(*crc);
        });
        let own = crc(&p.out);
        p.n4(own).n4(68 + 20 * sums.len() as u32).raw(b"TWPE");
    });
    file.raw(&body.out).raw(&trailer);
}

/// Head, sets and head again of a section: the bytes of each entry, behind count and length.
fn section(pen: &Pen, entries: &[Entry]) -> (Vec<u8>, Vec<Vec<u8>>) {
    let encoded: Vec<Vec<u8>> = entries
        .iter()
        .map(|e| {
            let body = pen.inside(|p| {
                p.n4(e.id).text("heat").text(e.name).text(e.path).n1(e.code).n8(e.count).raw(&e.sets);
            });
            pen.inside(|p| {
                p.n4(body.len() as u32).raw(&body);
            })
        })
        .collect();
    let length = encoded.iter().map(Vec::len).sum::<usize>() as u64;
    (
        pen.inside(|p| {
            p.n4(entries.len() as u32).n8(length);
        }),
        encoded,
    )
}

fn records(pen: &Pen, lists: &Lists, directory: Option<&[u8]>) -> Vec<u8> {
    let tagged = [(1, directory.unwrap_or(&[])), (2, &lists.complex), (3, &lists.sums)];
    pen.inside(|p| {
        for (tag, bytes) in tagged.iter().filter(|(_, b)| !b.is_empty()) {
            p.n4(*tag).n4(0).n8(bytes.len() as u64).raw(bytes);
        }
    })
}

fn write_full_index(file: &mut Pen, lists: &Lists, steps: u32, finished: bool) {
    let start = file.len();
    let groups = file.inside(|p| {
        p.n8(lists.group_count).n8(lists.groups.len() as u64).raw(&lists.groups);
    });
    let (variables_head, variables) = section(file, &lists.variables);
    let (attributes_head, attributes) = section(file, &lists.attributes);
    let directory = |rest: u32| {
        file.inside(|p| {
            p.n4(steps).n4((variables.len() + attributes.len()) as u32).n8(lists.group_count).n4(crc(&groups)).n4(rest);
            let mut at = (groups.len() + variables_head.len()) as u64;
            for (is_attribute, entries, bytes) in
                [(0, &lists.variables, &variables), (1, &lists.attributes, &attributes)]
            {
                at += if is_attribute == 1 { attributes_head.len() as u64 } else { 0 };
                for (e, bytes) in entries.iter().zip(bytes) {
                    p.n1(is_attribute).n1(e.code).n2(0).n4(crc(bytes)).n8(at).n8(bytes.len() as u64).n8(e.count);
                    p.n4(e.id).text("heat").text(e.path).text(e.name);
                    at += bytes.len() as u64;
                }
            }
        })
    };
    let section_length = 32 + records(file, lists, Some(&directory(0))).len() as u64 + 48;
    let index = start + section_length;
    let attributes_at = index + (groups.len() + variables_head.len() + variables.concat().len()) as u64;
    let footer = file.inside(|p| {
        p.raw(format!("{:<24}", concat!("ADIOS-BP v", env!("CARGO_PKG_VERSION"), " Thalweg")).as_bytes());
        p.raw(b"010\0").n8(index).n8(index + groups.len() as u64).n8(attributes_at);
        p.raw(&[u8::from(p.big), 0, 2, 3]);
    });
    let rest = crc(&[&variables_head[..], &attributes_head, &footer].concat());
    let body = records(file, lists, Some(&directory(rest)));
    let index_bytes =
        [&groups[..], &variables_head, &variables.concat(), &attributes_head, &attributes.concat(), &footer].concat();
    let front = file.inside(|p| {
        p.raw(b"TWEXTSEC").n4(1).n4(0).n8(section_length).n8(section_length + index_bytes.len() as u64).raw(&body);
    });
    let tail = file.inside(|p| {
        p.n8(start).n8(section_length).n8(index_bytes.len() as u64).n4(crc(&index_bytes));
    });
    let own = crc(&[&front[..], &tail].concat());
    file.raw(&front).raw(if finished { b"FINISHED" } else { b"FOLLOWED" }).raw(&tail).n4(own).raw(b"TWEXTEND");
    file.raw(&index_bytes);
}

fn write_step_record(file: &mut Pen, lists: &Lists, previous: u64, number: u32, at: Groups) {
    let start = file.len();
    let groups = file.inside(|p| {
        p.n8(lists.group_count).n8(lists.groups.len() as u64).raw(&lists.groups);
    });
    let sections = [&lists.variables, &lists.attributes].map(|entries| {
        let (head, entries) = section(file, entries);
        [head, entries.concat()].concat()
    });
    let records = records(file, lists, None);
    let (version, check, variables) = match at {
        Groups::Here => (2, crc(&sections[0]), Vec::new()),
        Groups::Elsewhere => (1, 0, sections[0].clone()),
    };
    let body = file.inside(|p| {
        [&groups, &variables, &sections[1], &records].iter().for_each(|s| {
            p.n8(s.len() as u64);
        });
        p.raw(&groups).raw(&variables).raw(&sections[1]).raw(&records);
    });
    let length = 24 + body.len() as u64 + 64;
    let front = file.inside(|p| {
        p.raw(b"TWSTEPRC").n4(version).n4(check).n8(length).raw(&body);
    });
    let tail = file.inside(|p| {
        p.n8(start).n8(length).n8(previous).n8(7).n4(number).n4(crc(&front));
    });
    file.raw(&front).raw(&tail).n4(crc(&tail)).raw(&[0; 12]).raw(b"TWSTEPND");
}

/// What `common::small_file_with(true, at)` is, from the tables alone.
fn from_the_tables(big: bool, at: Groups) -> Vec<u8> {
    first_steps(big, 4, at)
}

fn first_steps(big: bool, steps: u32, at: Groups) -> Vec<u8> {
    let mut file = Pen::new(big);
    let mut all = Lists::default();
    let (mut end, mut number) = (0, 0);
    for step in 0..steps {
        let mut of_step = Lists::default();
        for rank in 0..2 {
            write_group(&mut file, step, rank, &mut [&mut all, &mut of_step]);
        }
        if step == 0 || step == 3 {
            write_full_index(&mut file, &all, step + 1, step == 3);
        } else {
            number += 1;
            write_step_record(&mut file, &of_step, end, number, at);
        }
        end = file.len();
    }
    file.out
}

/// The bytes with the library's version, and the checksums over it, taken out.
fn without_version(mut bytes: Vec<u8>) -> Vec<u8> {
    let seen = scan(&bytes, ByteOrder::NATIVE).unwrap();
    let mut masked = 0;
    for dead in seen.dead {
        let Some(base) = live::Base::ending_at(&bytes, dead.end().unwrap()).unwrap() else { continue };
        let extension = base.extension.unwrap().extent;
        for (at, n) in [
            (base.end - 56, 24),
            // In the section's tail: of the index and of the section; in the directory, its first record: of the rest.
            (extension.end().unwrap() - 16, 8),
            (extension.offset + 32 + 16 + 20, 4),
        ] {
            bytes[at as usize..(at + n) as usize].fill(0);
            masked += n;
        }
    }
    assert_eq!(masked, 2 * 36, "two full indexes");
    bytes
}

fn check_content(bytes: &[u8], order: ByteOrder, at: Groups) {
    let live = Live::find(bytes).unwrap();
    assert!(live.finished() && live.torn == 0 && live.step_records.is_empty());
    assert_eq!(live.step_count(), 4);
    let base = live.base.unwrap();
    assert_eq!((base.process_groups, base.entries.len(), base.footer.order), (8, 9, order));
    base.check_bytes(bytes).unwrap();
    let expected = small_file_with(true, at).index;
    let table = |is_attribute| if is_attribute { &expected.attributes } else { &expected.variables };
    for entry in &base.entries {
        let wanted = table(entry.is_attribute).find(&entry.head.path, &entry.head.name).unwrap();
        let mut sets = Vec::new();
        live::for_each_set(&mut Cursor::new(&wanted.sets, ByteOrder::NATIVE, 0), wanted.code, wanted.count, |s| {
            sets.push(s);
            Ok(())
        })
        .unwrap();
        let mut got = Vec::new();
        entry
            .for_each_set(bytes, order, |s| {
                got.push(s);
                Ok(())
            })
            .unwrap();
        assert_eq!(got, sets, "{:?}", entry.head);
        assert_eq!((entry.head.id, entry.head.code), (wanted.id, wanted.code));
    }
    let records = base.extension.unwrap().records;
    let sums = records.get(Tag::ExactSum);
    let mut c = Cursor::new(&sums[7 * 32 + 16..], order, 0);
    assert_eq!(c.i128("").unwrap(), 2 * i128::from(i64::MAX) - 1 + 3);

    // And from the process groups alone.
    let seen = scan(bytes, order).unwrap();
    assert!(seen.torn.is_none());
    assert_eq!((seen.groups.len(), seen.dead.len()), (8, 4));
    for (i, found) in seen.groups.iter().enumerate() {
        let group = small_group(i as u32 / 2, i as u32 % 2);
        assert_eq!(found.header, group.header);
        assert!(thalweg_bp::scan::damaged_payloads(bytes, found).unwrap().is_empty());
        let trailer = found.trailer.as_ref().unwrap();
        assert_eq!((trailer.rank, trailer.ranks, trailer.run), (group.rank, 2, group.run));
        for ((at, record), block) in found.variables.iter().zip(&group.blocks) {
            let at = (at + record.payload.offset) as usize;
            let mut payload = bytes[at..at + record.payload.length as usize].to_vec();
            if order != ByteOrder::NATIVE {
                thalweg_types::element::swap_bytes(&mut payload, block.element.word());
            }
            assert_eq!((&record.name, &payload), (&block.name, &block.bytes));
        }
        for ((_, record), attribute) in found.attributes.iter().zip(&group.attributes) {
            assert_eq!(record.value, attribute.value);
        }
    }
    let first: Vec<&AttributeValue> = seen.groups[0].attributes.iter().map(|(_, a)| &a.value).collect();
    assert_eq!(first[0], &AttributeValue::One(Value::String("K".into())));
    assert_eq!(first.len(), 4);
}

#[test]
#[cfg(target_endian = "little")]
fn the_encoder_gives_the_bytes_that_are_checked_in() {
    for (path, at) in FILES {
        let now = small_file_with(true, at).bytes;
        if std::env::var_os("WRITE_GOLDEN").is_some() {
            std::fs::write(path, &now).unwrap();
        }
        let golden = std::fs::read(path).unwrap();
        assert_eq!(now.len(), golden.len());
        let (now, golden) = (without_version(now), without_version(golden));
        let differs = now.iter().zip(&golden).position(|(a, b)| a != b);
        assert_eq!(differs, None, "the first byte that differs");
    }
}

#[test]
fn the_decoder_reads_the_bytes_that_are_checked_in() {
    for (path, at) in FILES {
        check_content(&std::fs::read(path).unwrap(), ByteOrder::Little, at);
    }
}

#[test]
fn the_encoder_gives_what_the_tables_of_the_format_say() {
    for (_, at) in FILES {
        let (now, tables) = (small_file_with(true, at).bytes, from_the_tables(cfg!(target_endian = "big"), at));
        let differs = now.iter().zip(&tables).position(|(a, b)| a != b);
        assert_eq!((differs, now.len()), (None, tables.len()), "the first byte that differs");
    }
}

#[test]
fn the_decoder_reads_both_byte_orders() {
    for (_, at) in FILES {
        check_content(&from_the_tables(false, at), ByteOrder::Little, at);
        check_content(&from_the_tables(true, at), ByteOrder::Big, at);
    }
}

#[test]
fn an_interrupted_file_of_the_other_byte_order_says_where_it_can_be_recovered() {
    let native = cfg!(target_endian = "big");
    for (_, at) in FILES {
        assert_eq!(Live::find(&first_steps(native, 3, at)).unwrap().step_count(), 3);
        let e = Live::find(&first_steps(!native, 3, at)).unwrap_err();
        assert_eq!(e.kind(), thalweg_types::ErrorKind::Unsupported);
        assert!(e.to_string().contains("recover it on a machine of that order"), "{e}");
        // Its process groups read all the same.
        let order = if native { ByteOrder::Little } else { ByteOrder::Big };
        assert_eq!(scan(&first_steps(!native, 3, at), order).unwrap().groups.len(), 6);
    }
}
