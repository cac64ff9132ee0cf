/// A session's record as the library holds it.
final class OpenSession {
    let record: SessionRecord

    init(_ bytes: [UInt8]) throws(SignalFailure) { record = try SessionRecord(bytes) }
}
