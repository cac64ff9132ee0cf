import Platform
import TestThreads
import Testing

@testable import XMPPTransport

/// The transport's plain values: deadlines, output, names.
@Suite(.ownThread) struct TransportValueTests {
    @Test("X4 a deadline passes, and never does not")
    func deadlines() {
        let now: Int64 = 7_000_000_000
        #expect(Deadline(.zero, after: now).isPassed(at: now))
        let past = Deadline(.seconds(-5), after: now)
        #expect(past.isPassed(at: now))
        #expect(past.remaining(at: now) == .zero)
        #expect(past.milliseconds(at: now) == 0)
        #expect(!Deadline.never.isPassed(at: .max))
        #expect(Deadline.never.milliseconds(at: now) == nil)
        #expect(Deadline(.seconds(Int64.max), after: now) == .never)
        #expect(Deadline(.seconds(Int64.min), after: now).isPassed(at: now))
        let soon = Deadline(.seconds(60), after: now)
        #expect(!soon.isPassed(at: now + 59_999_999_999))
        #expect(soon.isPassed(at: now + 60_000_000_000))
        #expect(soon.remaining(at: now + 1) == .nanoseconds(59_999_999_999))
        #expect(soon.milliseconds(at: now + 1) == 60_000)
        #expect(soon.milliseconds(at: now + 1_000_000) == 59_999)
        #expect(Deadline.earlier(soon, .never) == soon)
        #expect(Deadline.earlier(.never, soon) == soon)
    }

    @Test("X17 output is given in order, however it is appended and taken")
    func outputBuffer() throws {
        var buffer = OutputBuffer()
        var appended: [UInt8] = []
        var taken: [UInt8] = []
        for round in 0..<400 {
            let bytes = (0..<(round * 7 % 1000)).map { UInt8(truncatingIfNeeded: $0 + round) }
            buffer.append(bytes)
            appended += bytes
            let limit = round * 13 % 900
            let count = try buffer.consume(upTo: limit) { waiting in
                #expect(waiting.count <= limit)
                taken += waiting
                return waiting.count
            }
            #expect(count <= limit)
            #expect(buffer.count == appended.count - taken.count)
        }
        while !buffer.isEmpty {
            _ = try buffer.consume { waiting in
                taken.append(waiting[0])
                return 1
            }
        }
        #expect(taken == appended)
    }

    /// What a buffer of elements of these sizes gives, record after record: how many bytes of which elements.
    private func records(_ sizes: [Int]) throws -> [[Int: Int]] {
        var buffer = RecordBuffer()
        for (index, size) in sizes.enumerated() {
            [UInt8](repeating: UInt8(index), count: size).withUnsafeBytes { buffer.append($0) }
        }
        var records: [[Int: Int]] = []
        while !buffer.isEmpty {
            _ = try buffer.consumeRecord { record in
                records.append(Dictionary(record.map { (Int($0), 1) }, uniquingKeysWith: +))
                return record.count
            }
        }
        #expect(buffer.count == 0)
        return records
    }

    @Test(
        "S16 a TLS record ends with an element; one that is larger than a record shares its own with nothing")
    func recordsOfElements() throws {
        #expect(RecordBuffer.recordLimit == 16_384)
        #expect(try records([]) == [])
        #expect(try records([0, 1, 2]) == [[1: 1, 2: 2]])
        #expect(try records([16_384, 1]) == [[0: 16_384], [1: 1]])
        #expect(try records([10_000, 6384, 1]) == [[0: 10_000, 1: 6384], [2: 1]])
        #expect(try records([10_000, 6385]) == [[0: 10_000], [1: 6385]])
        #expect(try records([1, 16_385, 1, 2]) == [[0: 1], [1: 16_384], [1: 1], [2: 1, 3: 2]])
        #expect(try records([40_000, 100]) == [[0: 16_384], [0: 16_384], [0: 7232], [1: 100]])
    }

    @Test("S16 what is appended while a large element is being encrypted shares no record with it")
    func appendedMeanwhile() throws {
        var buffer = RecordBuffer()
        [UInt8](repeating: 1, count: 20_000).withUnsafeBytes { buffer.append($0) }
        var sizes = [try buffer.consumeRecord { $0.count }]
        [UInt8](repeating: 2, count: 10).withUnsafeBytes { buffer.append($0) }
        while !buffer.isEmpty { sizes.append(try buffer.consumeRecord { $0.count }) }
        #expect(sizes == [16_384, 3616, 10])
        [UInt8](repeating: 3, count: 10).withUnsafeBytes { buffer.append($0) }
        sizes = [try buffer.consumeRecord { $0.count }, try buffer.consumeRecord { $0.count }]
        #expect(sizes == [10, 0])
    }

    /// RFC 3492 section 7.1 (A), (B), (L) and names in use.
    @Test(
        "X5 a domain with other letters is written as DNS and certificates write it",
        arguments: [
            ("example.org", "example.org"), ("example.org.", "example.org"),
            ("münchen.example", "xn--mnchen-3ya.example"),
            ("bücher.straße.example", "xn--bcher-kva.xn--strae-oqa.example"),
            ("ليهمابتكلموشعربي؟", "xn--egbpdaj6bu4bxfgehfvwxn"),
            ("他们为什么不说中文", "xn--ihqwcrb4cv8a8dqg056pqjye"),
            ("3年b組金八先生", "xn--3b-ww4c5e180e575a65lsy2b"), ("☃.example", "xn--n3h.example"), ("", ""),
        ])
    func punycode(domain: String, ascii: String) {
        #expect(DomainName.ascii(domain) == ascii)
    }

    @Test("X5 protocol names are those of RFC 9266 and XEP-0368")
    func protocolNames() {
        #expect(TLSContext.channelBindingLabel == "EXPORTER-Channel-Binding")
        #expect(TLSContext.xmppClientProtocol == [11] + Array("xmpp-client".utf8))
    }

    @Test("X5 an error reads as one sentence, with the cause in parentheses")
    func errorText() {
        let error = TransportError(
            .refused, "It refused; check the port.", cause: Errno.connectionRefused.detail)
        #expect(error.description == "It refused; check the port. (Connection refused, errno 111)")
        #expect(TransportError(.refused, "It refused.").description == "It refused.")
        #expect("\(error.code)" == "refused")
    }
}
