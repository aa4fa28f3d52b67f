//! Effects of writes, reads, truncation, holes and reservations on bytes.

use super::{Room, write};
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use thalweg_store::{OpenWrite, name};
use thalweg_types::ErrorKind;
use thalweg_view::{Datatype, View};

pub(super) fn ends(room: &Room<'_>) {
    room.put("object", OpenWrite::New, b"0123456789");
    let object = room.store.open_read(&room.name("object")).unwrap();
    assert_eq!(object.length().unwrap(), 10);
    let mut out = [b'-'; 6];
    assert_eq!(object.read_at(7, &mut out).unwrap(), 3);
    assert_eq!(&out, b"789---", "nothing is put behind what was read");
    for past in [10, 11, 1 << 40, i64::MAX as u64, u64::MAX] {
        assert_eq!(object.read_at(past, &mut out).unwrap(), 0, "at {past}");
    }
    assert_eq!(object.read_at(3, &mut []).unwrap(), 0);
    object.read_exact_at(4, &mut out).unwrap();
    assert_eq!(&out, b"456789");
    let torn = object.read_exact_at(5, &mut out).unwrap_err();
    assert_eq!((torn.kind(), torn.place().byte), (ErrorKind::Torn, Some(10)));
    let (mut first, mut second, mut third) = ([b'-'; 3], [b'-'; 4], [b'-'; 5]);
    let mut pieces = [&mut first[..], &mut [], &mut second[..], &mut third[..]].map(IoSliceMut::new);
    assert_eq!(object.read_vectored_at(1, &mut pieces).unwrap(), 9, "as far as the object goes");
    assert_eq!((&first, &second, &third[..2], third[4]), (b"123", b"4567", &b"89"[..], b'-'));
}

pub(super) fn views(room: &Room<'_>) {
    // Blocks far apart and near each other, an instance cut at both ends, and a view that writes a byte twice.
    let of = |count, block, stride| {
        let byte = Box::new(Datatype::Elementary(1));
        Datatype::Vector { count, block, stride, of: byte }.pattern().unwrap()
    };
    let byte = Datatype::Elementary(1).pattern().unwrap();
    for (count, block, stride, start, length) in
        [(7, 30, 100, 11, 300), (3, 4, 20_000, 1, 20), (3, 5, 2, 0, 15), (2, 9, 50, 4, 0)]
    {
        let view = Arc::new(View::new(17, &byte, of(count, block, stride)).unwrap());
        let bytes: Vec<u8> = (0..length).map(|i| (i * 13 + 1) as u8).collect();
        let object = room.open("object", OpenWrite::Replace);
        let mut expected = vec![b'-'; 64];
        write(&*object, 0, &expected);
        object.write_view(&view, start, &bytes).unwrap();
        for (v, byte) in (start..).zip(&bytes) {
            let at = view.file_offset(v).unwrap() as usize;
            expected.resize(expected.len().max(at + 1), 0);
            expected[at] = *byte;
        }
        let seen: Vec<u8> =
            (start..start + length as u64).map(|v| expected[view.file_offset(v).unwrap() as usize]).collect();
        let mut out = vec![b'-'; length];
        assert_eq!(
            object.read_view(&view, start, &mut out).unwrap(),
            length as u64,
            "an object open for writing reads back"
        );
        assert_eq!(out, seen);
        object.close().unwrap();
        assert_eq!(room.bytes("object"), expected);
        let object = room.store.open_read(&room.name("object")).unwrap();
        out.fill(b'-');
        assert_eq!(object.read_view(&view, start, &mut out).unwrap(), length as u64);
        assert_eq!(out, seen);
        // Two instances behind the end there is nothing.
        let behind = 2 * view.pattern().size() * (expected.len() as u64 + 1);
        assert_eq!(object.read_view(&view, behind, &mut [0; 10]).unwrap(), 0);
    }
}

pub(super) fn syncing(room: &Room<'_>) {
    let object = room.open("object", OpenWrite::New);
    object.sync().unwrap();
    write(&*object, 0, b"bytes");
    object.sync().unwrap();
    room.store.sync_folder(room.folder).unwrap();
    room.store.sync_folder(name::folder_of(room.folder)).unwrap();
    object.close().unwrap();
    assert_eq!(room.bytes("object"), b"bytes");
}

pub(super) fn pieces(room: &Room<'_>) {
    // More pieces than one system call takes, some of them empty, of lengths that meet no boundary.
    let all: Vec<u8> = (0..200_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let (mut pieces, mut rest) = (Vec::new(), &all[..]);
    for length in (0..).map(|i| (i * 7) % 131) {
        let (piece, behind) = rest.split_at(length.min(rest.len()));
        pieces.push(IoSlice::new(piece));
        rest = behind;
        if rest.is_empty() {
            break;
        }
    }
    assert!(pieces.len() > 3000);
    let object = room.open("object", OpenWrite::New);
    object.write_at(5, &pieces).unwrap();
    assert_eq!(object.length().unwrap(), 200_005);
    assert_eq!(room.bytes("object")[5..], all);
    let mut out = vec![0; 1000];
    assert_eq!(object.read_at(105, &mut out).unwrap(), 1000, "an object open for writing reads back");
    assert_eq!(out, all[100..1100]);
    // The same memory may be given twice.
    let twice = [IoSlice::new(b"ab"), IoSlice::new(b""), IoSlice::new(b"ab")];
    room.open("twice", OpenWrite::New).write_at(0, &twice).unwrap();
    assert_eq!(room.bytes("twice"), b"abab");
}

pub(super) fn overlaps(room: &Room<'_>) {
    let object = room.open("object", OpenWrite::New);
    let mut expected = vec![0u8; 100_000];
    let mut at = 1;
    for round in 1..=60u8 {
        at = (at * 48_271) % 80_000;
        let length = (at * 31) % 20_000;
        let bytes = vec![round; length];
        write(&*object, at as u64, &bytes);
        expected[at..at + length].copy_from_slice(&bytes);
    }
    let length = object.length().unwrap() as usize;
    assert!(room.bytes("object") == expected[..length], "bytes differ from what was written last");
}

pub(super) fn holes(room: &Room<'_>) {
    let object = room.open("object", OpenWrite::New);
    write(&*object, 100_000, b"end");
    write(&*object, 0, b"start");
    assert_eq!(object.length().unwrap(), 100_003);
    let bytes = room.bytes("object");
    assert_eq!((&bytes[..5], &bytes[100_000..]), (&b"start"[..], &b"end"[..]));
    assert!(bytes[5..100_000].iter().all(|byte| *byte == 0));
}

pub(super) fn skipped(room: &Room<'_>) {
    let can = room.store.capability();
    let object = room.open("object", OpenWrite::New);
    assert_eq!(object.stored_before(0).unwrap(), 0);
    write(&*object, 900_000, b"end");
    write(&*object, 0, b"start");
    write(&*object, 300_001, &[7; 70_000]);
    write(&*object, 600_000, b"in between");
    let look = || {
        let bytes = room.bytes("object");
        let reader = room.store.open_read(&room.name("object")).unwrap();
        let near = [0, 5, 300_001, 350_000, 370_001, 600_000, 600_010, 900_000, 900_003, bytes.len()];
        let all = near.iter().flat_map(|at| at.saturating_sub(2)..at + 3).chain((0..bytes.len()).step_by(9973));
        for offset in all.filter(|at| *at <= bytes.len()) {
            for end in [object.stored_before(offset as u64).unwrap(), reader.stored_before(offset as u64).unwrap()] {
                assert!(end <= offset as u64, "before byte {offset} up to byte {end}");
                let hole = &bytes[end as usize..offset];
                assert!(hole.iter().all(|byte| *byte == 0), "bytes {end} to {offset} are said to be a hole");
            }
        }
        for past in [bytes.len() as u64 + 1, 1 << 40, i64::MAX as u64, u64::MAX] {
            assert_eq!(reader.stored_before(past).unwrap(), past, "behind the end nothing is a hole");
            assert_eq!(object.stored_before(past).unwrap(), past, "behind the end nothing is a hole");
        }
    };
    look();
    object.punch(500_000, 200_000).unwrap();
    object.reserve(370_001, 100_000).unwrap();
    look();
    if can.truncate {
        object.truncate(340_000).unwrap();
        object.truncate(1_200_000).unwrap();
        look();
        write(&*object, 1_100_000, b"again");
        look();
    }
}

pub(super) fn far_offsets(room: &Room<'_>) {
    let far = (5u64 << 32) + 3;
    if room.store.capability().largest_object < far + 4 {
        return;
    }
    let object = room.open("object", OpenWrite::New);
    write(&*object, far, b"far");
    write(&*object, 3, b"near");
    assert_eq!(object.length().unwrap(), far + 3);
    let mut out = [0; 5];
    assert_eq!(object.read_at(far - 1, &mut out).unwrap(), 4);
    assert_eq!(&out[..4], b"\0far");
    assert_eq!(object.read_at(2, &mut out).unwrap(), 5);
    assert_eq!(&out, b"\0near");
}

pub(super) fn too_far(room: &Room<'_>) {
    let object = room.open("object", OpenWrite::New);
    let beyond = u64::MAX - 2;
    let error = object.write_at(beyond, &[IoSlice::new(b"four")]).unwrap_err();
    assert_eq!((error.kind(), error.place().byte), (ErrorKind::OutOfBounds, Some(beyond)), "{error}");
    assert!(error.to_string().contains("object"), "{error}");
    assert_eq!(object.length().unwrap(), 0);
}

pub(super) fn no_bytes(room: &Room<'_>) {
    let object = room.open("object", OpenWrite::New);
    object.write_at(50, &[]).unwrap();
    object.write_at(50, &[IoSlice::new(b""), IoSlice::new(b"")]).unwrap();
    assert_eq!(object.length().unwrap(), 0);
    write(&*object, 0, b"abc");
    write(&*object, 1, b"");
    assert_eq!(room.bytes("object"), b"abc");
}

pub(super) fn reserving(room: &Room<'_>) {
    let object = room.open("object", OpenWrite::New);
    object.reserve(0, 100_000).unwrap();
    assert_eq!(object.length().unwrap(), 0);
    write(&*object, 0, b"abc");
    object.reserve(0, 100_000).unwrap();
    object.reserve(1, 0).unwrap();
    object.reserve(u64::MAX, 1).unwrap();
    assert_eq!(room.bytes("object"), b"abc");
    write(&*object, 50_000, b"d");
    let bytes = room.bytes("object");
    assert_eq!((bytes.len(), &bytes[..4], bytes[50_000]), (50_001, &b"abc\0"[..], b'd'));
}

pub(super) fn threads(room: &Room<'_>) {
    const EACH: usize = 40;
    const RUN: usize = 4099;
    let shared = room.open("object", OpenWrite::New);
    std::thread::scope(|scope| {
        for thread in 0..8usize {
            let shared = &*shared;
            scope.spawn(move || {
                // Half of the threads share a handle, the others have their own.
                let own = (thread % 2 == 1).then(|| room.open("object", OpenWrite::Existing));
                let object = own.as_deref().unwrap_or(shared);
                for i in (0..EACH).rev() {
                    let offset = (i * 8 + thread) * RUN;
                    let bytes = vec![(i * 8 + thread) as u8; RUN];
                    object.write_at(offset as u64, &[IoSlice::new(&bytes[..1]), IoSlice::new(&bytes[1..])]).unwrap();
                }
            });
        }
    });
    let bytes = room.bytes("object");
    assert_eq!(bytes.len(), 8 * EACH * RUN);
    for (i, run) in bytes.chunks(RUN).enumerate() {
        assert!(run.iter().all(|byte| *byte == i as u8), "run {i} is not what its thread wrote");
    }
}

pub(super) fn appends(room: &Room<'_>) {
    for round in 0..5u8 {
        let object = room.open("object", OpenWrite::Any);
        let end = object.length().unwrap();
        assert_eq!(end, u64::from(round) * 3);
        write(&*object, end, &[round; 3]);
    }
    assert_eq!(room.bytes("object"), [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]);
}

pub(super) fn truncation(room: &Room<'_>) {
    let object = room.open("object", OpenWrite::New);
    write(&*object, 0, &[7; 50_000]);
    object.truncate(20_001).unwrap();
    assert_eq!(object.length().unwrap(), 20_001);
    assert!(room.bytes("object") == [7; 20_001]);
    object.truncate(60_000).unwrap();
    let bytes = room.bytes("object");
    assert_eq!(bytes.len(), 60_000);
    assert!(bytes[..20_001].iter().all(|byte| *byte == 7), "what was kept is as it was");
    assert!(bytes[20_001..].iter().all(|byte| *byte == 0), "what was cut off does not come back");
    object.truncate(0).unwrap();
    assert_eq!(room.store.stat(&room.name("object")).unwrap().length, 0);
}

pub(super) fn punching(room: &Room<'_>) {
    let object = room.open("object", OpenWrite::New);
    write(&*object, 0, &[7; 200_000]);
    object.punch(10_001, 100_000).unwrap();
    object.punch(190_000, 1 << 40).unwrap();
    object.punch(300_000, 1000).unwrap();
    object.punch(5, 0).unwrap();
    object.punch(u64::MAX, 1).unwrap();
    let bytes = room.bytes("object");
    assert_eq!(bytes.len(), 200_000, "the length stays");
    for (i, byte) in bytes.iter().enumerate() {
        let punched = (10_001..110_001).contains(&i) || i >= 190_000;
        assert_eq!(*byte, if punched { 0 } else { 7 }, "byte {i}");
    }
    write(&*object, 50_000, b"again");
    assert_eq!(room.bytes("object")[49_999..50_006], *b"\0again\0");
}
