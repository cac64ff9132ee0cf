import Glibc
import HandlersTestKit
import TestThreads
import Testing

@testable import Handlers

/// Writes the content of a TZif file.
private struct ZoneFile {
    var version: Unicode.Scalar = "2"
    var times: [Int64] = [0]
    var indexes: [UInt8] = [1]
    var offsets: [Int32] = [0, 3600]
    var footer = "<A01>-1"
    var leapCount: UInt32 = 0
    /// What the header says when that is not true.
    var timeCount: UInt32?
    var typeCount: UInt32?

    var bytes: [UInt8] {
        guard version != "\0" else { return block(timeSize: 4) }
        return block(timeSize: 4) + block(timeSize: 8) + Array("\n\(footer)\n".utf8)
    }

    private func block(timeSize: Int) -> [UInt8] {
        let counts: [UInt32] = [
            0, 0, leapCount, timeCount ?? UInt32(times.count), typeCount ?? UInt32(offsets.count), 4,
        ]
        var bytes = Array("TZif".utf8) + [UInt8(ascii: version)] + [UInt8](repeating: 0, count: 15)
        for count in counts { bytes += Self.integer(Int64(count), 4) }
        for time in times { bytes += Self.integer(time, timeSize) }
        bytes += indexes
        for offset in offsets { bytes += Self.integer(Int64(offset), 4) + [0, 0] }
        bytes += Array("A01\0".utf8)
        return bytes + [UInt8](repeating: 0, count: Int(leapCount) * (timeSize + 4))
    }

    private static func integer(_ value: Int64, _ size: Int) -> [UInt8] {
        (0..<size).reversed().map { UInt8(truncatingIfNeeded: value >> ($0 * 8)) }
    }
}

@Suite(.ownThread, .serialized) struct TimeZoneFileTests {
    private func zone(_ bytes: [UInt8]) throws -> TimeZoneRules { try TimeZoneRules(decoding: bytes) }

    @Test(
        "H26 time zone files of the versions 1 to 4 are read",
        arguments: ["\0", "2", "3", "4"] as [Unicode.Scalar])
    func versions(version: Unicode.Scalar) throws {
        let zone = try zone(ZoneFile(version: version, times: [1000], offsets: [-60, 3600]).bytes)
        #expect(
            zone.offset(at: 999) == -60 && zone.offset(at: 1000) == 3600 && zone.offset(at: 1 << 40) == 3600)
        #expect(zone.offset(at: -1 << 40) == -60)
    }

    @Test("H26 a wrong time zone file is refused with what is wrong")
    func wrong() throws {
        func reason(_ change: (inout ZoneFile) -> Void) -> String {
            var file = ZoneFile()
            change(&file)
            do {
                _ = try zone(file.bytes)
                return "none"
            } catch { return "\(error)" }
        }
        #expect(reason { _ in } == "none")
        #expect(reason { $0.version = "x" }.contains("version is unknown"))
        #expect(reason { $0.leapCount = 1 }.contains("leap seconds"))
        #expect(reason { ($0.times, $0.indexes) = ([5, 5], [0, 1]) }.contains("not in order"))
        #expect(reason { ($0.times, $0.indexes) = ([5, 4], [0, 1]) }.contains("not in order"))
        #expect(reason { $0.times = [.max] }.contains("not in order"))
        #expect(reason { $0.times = [.min] }.contains("not in order"))
        #expect(reason { $0.indexes = [2] }.contains("type that is not there"))
        #expect(reason { $0.offsets = [0, 93_601] }.contains("more than 26 hours"))
        #expect(reason { $0.offsets = [-93_601, 0] }.contains("more than 26 hours"))
        #expect(reason { $0.offsets = [.min, 0] }.contains("more than 26 hours"))
        #expect(reason { $0.offsets = [-93_600, 93_600] } == "none")
        #expect(reason { ($0.version, $0.typeCount) = ("\0", 0) }.contains("no type"))
        #expect(reason { $0.timeCount = .max }.contains("ends too early"))
        #expect(reason { $0.typeCount = .max }.contains("ends too early"))
        #expect(
            reason { ($0.times, $0.indexes) = (Array(0..<2001), .init(repeating: 0, count: 2001)) }.contains(
                "too many transitions"))
        #expect(
            reason { ($0.times, $0.indexes) = (Array(0..<2000), .init(repeating: 0, count: 2000)) } == "none")
    }

    @Test(
        "H26 a wrong rule at the end of a time zone file is refused",
        arguments: [
            "A", "CET", "CET-", "CE1", "<CET-1", "<C>-1", "CET-25", "CET-1:60", "CET-1CEST",
            "CET-1CEST,M3.5.0", "CET-1CEST,M3.5.0,",
            "CET-1CEST,M13.5.0,M10.5.0", "CET-1CEST,M0.5.0,M10.5.0", "CET-1CEST,M3.6.0,M10.5.0",
            "CET-1CEST,M3.0.0,M10.5.0",
            "CET-1CEST,M3.5.7,M10.5.0", "CET-1CEST,M3.5,M10.5.0", "CET-1CEST,J0,J5", "CET-1CEST,J366,J5",
            "CET-1CEST,366,5",
            "CET-1CEST,M3.5.0/168,M10.5.0", "CET-1CEST,M3.5.0,M10.5.0/3x", "CET-9999999999999999999",
            "CET-1\n",
        ])
    func wrongFooter(footer: String) {
        #expect(throws: MalformedZone.self) { try zone(ZoneFile(footer: footer).bytes) }
    }

    @Test("H26 each form of a rule at the end of a time zone file is read")
    func footers() throws {
        /// The offset in the middle of a day of a year, in minutes.
        func offset(_ footer: String, year: Int64 = 2101, day: Int64, hour: Int64 = 12) throws -> Int64 {
            let start = GregorianDay(year: year, month: 1, day: 1).number
            return try zone(ZoneFile(footer: footer).bytes).offset(at: (start + day) * 86_400 + hour * 3600)
                / 60
        }
        #expect(try offset("", day: 1) == 60)
        #expect(try offset("<+0530>-5:30", day: 1) == 330)
        #expect(try offset("AAA3", day: 1) == -180)
        #expect(try offset("AAA+3:00:59BBB,J2,J4", day: 2) == -120)
        #expect(
            try offset("AAA0BBB,J60/0,J61/0", day: 58) == 0 && offset("AAA0BBB,J60/0,J61/0", day: 59) == 60)
        #expect(try offset("AAA0BBB,59/0,60/0", day: 59) == 60 && offset("AAA0BBB,59/0,60/1", day: 60) == 0)
        // In a leap year, 1 March is still the day 60 of those that are counted without 29 February.
        #expect(try offset("AAA0BBB,J59/0,J60/0", year: 2104, day: 58) == 60)
        #expect(try offset("AAA0BBB,J60/0,J61/0", year: 2104, day: 59) == 0)
        #expect(try offset("AAA0BBB,J60/0,J61/0", year: 2104, day: 60) == 60)
        // 1 January 2101 is a Saturday: from 23:00 of the day before to 02:00 on the third.
        let newYear = "AAA0BBB-2,M1.1.6/-1,M1.1.0/26"
        #expect(try offset(newYear, day: -1, hour: 22) == 0 && offset(newYear, day: -1, hour: 23) == 120)
        #expect(try offset(newYear, day: 1, hour: 23) == 120 && offset(newYear, day: 2, hour: 0) == 0)
        // The south, a negative one, and one that lasts all year (RFC 9636 section 3.3.1).
        #expect(try offset("AAA-10BBB,M10.1.0,M4.1.0/3", day: 0) == 660)
        #expect(
            try offset("AAA-1BBB0,M10.5.0,M3.5.0/1", day: 0) == 0
                && offset("AAA-1BBB0,M10.5.0,M3.5.0/1", day: 180) == 60)
        for day: Int64 in [0, 100, 364] {
            #expect(try offset("AAA5BBB,0/0,J365/25", day: day, hour: 5) == -240)
        }
    }

    @Test("H26 a time zone file that is cut at any place is refused")
    func truncated() throws {
        let bytes = zoneFile("Europe/Zurich")
        #expect(try zone(bytes).offset(at: 0) == 3600)
        for count in 0..<bytes.count {
            #expect(throws: MalformedZone.self) { try zone(Array(bytes.prefix(count))) }
        }
    }

    @Test("H26 a time zone file with wrong bytes is refused or used without a trap", .timeLimit(.minutes(1)))
    func flipped() throws {
        var generator = SeededGenerator(seed: 26)
        var read = 0
        for name in ["Europe/Zurich", "Africa/Casablanca", "Pacific/Apia"] {
            let bytes = zoneFile(name)
            for _ in 0..<300 {
                var changed = bytes
                for _ in 0..<Int.random(in: 1...3, using: &generator) {
                    changed[.random(in: bytes.indices, using: &generator)] = .random(
                        in: 0...255, using: &generator)
                }
                guard let zone = try? zone(changed) else { continue }
                read += 1
                checkConsistency(of: zone, &generator)
            }
        }
        #expect(read > 100)
    }

    /// Checks that the clock reaches a local time when it has not shown it before.
    private func checkConsistency(of zone: TimeZoneRules, _ generator: inout SeededGenerator) {
        for _ in 0..<10 {
            let local = Int64.random(in: -62_000_000_000...253_000_000_000, using: &generator)
            let first = zone.firstTime(reaching: local)
            #expect(
                zone.latestLocalTime(upTo: first) >= local && zone.latestLocalTime(upTo: first - 1) < local)
            let span = zone.span(at: first)
            #expect(span.start <= first && first < span.end && span.offset == zone.offset(at: span.end - 1))
        }
    }

    @Test("H26 an unknown time zone is refused with its name and an example")
    func unknown() throws {
        for name in [
            "Europe/Zürich", "", "/UTC", "Europe/", "Europe//Zurich", "../zoneinfo/UTC", ".", "a b", "A\0",
            String(repeating: "a", count: 65),
        ] {
            let refused = error { _ = try TimeZoneRules.find(name, in: ["/usr/share/zoneinfo"]) }
            #expect(refused?.code == .invalidCalendar && refused?.message.contains("1 to 64 letters") == true)
        }
        for name in ["Europe/Zurihc", "Europe", "Europe/Zurich/x", String(repeating: "a", count: 64)] {
            let refused = error { _ = try TimeZoneRules.find(name, in: ["/nowhere", "/usr/share/zoneinfo"]) }
            #expect(refused?.code == .invalidCalendar)
            #expect(
                refused?.message
                    == "the time zone '\(name)' is not in /nowhere or /usr/share/zoneinfo; install the package tzdata, or write a name such as 'Europe/Zurich' or 'UTC'"
            )
        }
        #expect(try TimeZoneRules.find("UTC", in: []).offset(at: 0) == 0)
        #expect(try TimeZoneRules.find("Etc/GMT+5", in: ["/usr/share/zoneinfo"]).offset(at: 0) == -18_000)
    }

    @Test("H26 a time zone file that is too large, a pipe or no such file is refused and named")
    func unusable() throws {
        try withFolder { folder in
            func problem(_ name: String) -> String {
                error { _ = try TimeZoneRules.find(name, in: [folder.path]) }?.message ?? "none"
            }
            try write(ZoneFile().bytes, to: folder.file("Good"))
            #expect(problem("Good") == "none")
            try write(Array("hello".utf8) + [UInt8](repeating: 0, count: 100), to: folder.file("Text"))
            #expect(problem("Text").contains("'\(folder.path)/Text' cannot be used: it is no TZif file"))
            try write(.init(repeating: 0, count: 1 << 20 + 1), to: folder.file("Large"))
            #expect(problem("Large").contains("more than 1048576 bytes"))
            #expect(mkfifo(folder.file("Pipe"), 0o600) == 0)
            #expect(problem("Pipe").contains("is not in"))
        }
    }

    private func write(_ bytes: [UInt8], to path: String) throws {
        let file = try #require(fopen(path, "w"))
        defer { fclose(file) }
        #expect(fwrite(bytes, 1, bytes.count, file) == bytes.count)
    }

    @Test("H26 a time zone is read once, and the process keeps 64 of them")
    func cache() throws {
        let zone = try TimeZoneRules.cached("Asia/Kathmandu")
        #expect(try TimeZoneRules.cached("Asia/Kathmandu") === zone)
        #expect(code { try TimeZoneRules.cached("Asia/Nowhere") } == .invalidCalendar)
        for hours in 0...12 {
            for name in [
                "Etc/GMT+\(hours)", "posix/Etc/GMT+\(hours)", "Etc/GMT-\(hours)", "posix/Etc/GMT-\(hours)",
                "Etc/../x",
            ] {
                _ = try? TimeZoneRules.cached(name)
            }
        }
        for name in [
            "EST5EDT", "CST6CDT", "MST7MDT", "PST8PDT", "WET", "CET", "MET", "EET", "Asia/Tokyo",
            "Asia/Seoul", "Asia/Dhaka", "Asia/Dubai", "Asia/Kabul",
        ] {
            _ = try TimeZoneRules.cached(name)
        }
        #expect(TimeZoneRules.cachedCount == 64)
    }
}
