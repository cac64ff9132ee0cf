import TestServers
import TestThreads
import Testing

@testable import Handlers

/// The offsets of all zones of this machine, compared with those of Python's module `zoneinfo`.
@Suite(.ownThread) struct TimeZoneOffsetTests {
    /// Prints, for each zone, its name, the times around its changes from 1970 to 2100, and the offsets at these and at the shared times
    /// of the first line. A zone with the same file as an earlier one is printed with that one's name.
    private static let script = """
        import datetime, zoneinfo
        from zoneinfo import _zoneinfo
        first, last = 0, 4102444800
        state, shared = 26, []
        for _ in range(1000):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            shared.append(first + (state >> 33) % (last - first))
        line = lambda numbers: print(*numbers)
        line(shared)
        seen = {}
        for name in sorted(zoneinfo.available_timezones()):
            content = open("/usr/share/zoneinfo/" + name, "rb").read()
            if content in seen:
                print("same", name, seen[content])
                continue
            seen[content] = name
            zone, slow = zoneinfo.ZoneInfo(name), _zoneinfo.ZoneInfo.no_cache(name)
            changes, rule = set(slow._trans_utc), slow._tz_after
            if isinstance(rule, _zoneinfo._TZStr):
                for year in range(1970, 2100):
                    start, end = rule.transitions(year)
                    changes.add(start - int(rule.std.utcoff.total_seconds()))
                    changes.add(end - int(rule.dst.utcoff.total_seconds()))
            times = [time + step for time in sorted(changes) if first <= time < last for step in (-1, 0, 1)]
            print("zone", name)
            line(times)
            line(int(datetime.datetime.fromtimestamp(time, zone).utcoffset().total_seconds()) for time in times + shared)
        """

    @Test("H26 the offsets of all time zones are those of Python's zoneinfo, from 1970 to 2100")
    func allZones() throws {
        let child = try ChildProcess("python3", ["-c", Self.script], output: .pipe)
        let output = try #require(child.output)
        func line() throws -> String? { try output.readLine(deadline: .now + .seconds(60)) }
        let shared = numbers(try line() ?? "")
        var zones: [String: TimeZoneRules] = [:]
        while let words = try line()?.split(separator: " ") {
            let zone = try TimeZoneRules.find(String(words[1]), in: ["/usr/share/zoneinfo"])
            zones[String(words[1])] = zone
            if words[0] == "same" {
                let other = try #require(zones[String(words[2])])
                #expect(
                    shared.prefix(10).allSatisfy { zone.offset(at: $0) == other.offset(at: $0) }, "\(words)")
                continue
            }
            let times = numbers(try line() ?? "") + shared
            let offsets = numbers(try line() ?? "")
            try #require(times.count == offsets.count)
            let wrong = zip(times, offsets).first { zone.offset(at: $0) != $1 }
            #expect(wrong == nil, "\(words[1])")
        }
        #expect(try child.waitUntilExit(deadline: .now + .seconds(60)).status == 0)
        #expect(zones.count > 400 && shared.count == 1000, "\(zones.count) zones")
    }

    private func numbers(_ line: String) -> [Int64] {
        line.utf8.split(separator: UInt8(ascii: " ")).map { digits in
            let isNegative = digits.first == UInt8(ascii: "-")
            let value = digits.dropFirst(isNegative ? 1 : 0).reduce(Int64(0)) { $0 * 10 + Int64($1 - 0x30) }
            return isNegative ? -value : value
        }
    }
}
