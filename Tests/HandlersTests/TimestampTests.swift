import TestSupport
import TestThreads
import Testing

@testable import Handlers

@Suite(.ownThread, .engines(.sqlite, .postgres)) struct TimestampTests {
    private static let extremes = [Int64.min, -1, 0, 1_763_676_000_123, .max].map(
        Timestamp.init(milliseconds:))

    @Test(
        "H18 a time is encoded as the number of its milliseconds, and bound and read as that", .sqliteOnly,
        arguments: extremes)
    func stored(time: Timestamp) throws {
        let bytes = try ArgumentCoding.encode([time])
        #expect(bytes == Array("[\(time.milliseconds)]".utf8))
        #expect(try ArgumentCoding.value([Timestamp].self, from: bytes) == [time])
        try withFolder { folder in
            let store = try openStore(folder.file())
            let read = try store.step { step in
                try step.first("SELECT ?, typeof(?), ?", time, time, Timestamp?.none) {
                    (row) throws(HandlerError) in
                    (row.integer(0), row.text(1), row.timestamp(0), row.optionalTimestamp(2))
                }
            }
            let row = try #require(read)
            #expect(row.0 == time.milliseconds && row.1 == "integer" && row.3 == nil)
            // What a damaged row holds is brought to 142 000 years.
            #expect(row.2.milliseconds == min(max(time.milliseconds, -1 << 52), 1 << 52))
        }
    }

    @Test("H18 sums of times saturate, and differences are exact")
    func arithmetic() {
        let (earliest, latest) = (Timestamp(milliseconds: .min), Timestamp(milliseconds: .max))
        let longest = Duration.seconds(Int64.max)
        #expect(latest + .milliseconds(1) == latest && latest + longest == latest)
        #expect(earliest - .milliseconds(1) == earliest && earliest - longest == earliest)
        #expect(latest - longest < latest && latest - (latest - earliest) == earliest)
        #expect(earliest + (latest - earliest) == latest)
        let time = Timestamp(milliseconds: 1000)
        #expect((time + .milliseconds(-1500)).milliseconds == -500)
        #expect((time - .microseconds(1999)).milliseconds == 999)
        #expect(time - Timestamp(milliseconds: 250) == .milliseconds(750))
        #expect(Timestamp(milliseconds: 250) - time == .milliseconds(-750))
    }

    @Test("H18 times are in the order of their milliseconds")
    func order() {
        #expect(Self.extremes.reversed().sorted() == Self.extremes)
        #expect(Set(Self.extremes + Self.extremes).count == Self.extremes.count)
    }
}
