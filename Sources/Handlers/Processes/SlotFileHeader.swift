import Platform

/// First bytes of the file of slots.
struct SlotFileHeader: Equatable {
    /// "DHseats1".
    private static let mark: Int64 = 0x4448_7365_6174_7331
    private static let version: Int64 = 1

    /// Mark, version, and the boot in which the file was written: two words.
    let words: [Int64]

    /// Returns the header of a file that this process can use.
    ///
    /// The file is never synced. After a loss of power it may show an older state, so what another boot has written
    /// counts for nothing: its processes are all dead, and any of them may have left leases.
    static func current() -> SlotFileHeader { SlotFileHeader(words: [mark, version] + boot()) }

    /// Returns the stored header; zeros if the file is too short.
    static func stored(in file: OpenFile) -> SlotFileHeader {
        var words = [Int64](repeating: 0, count: 4)
        _ = words.withUnsafeMutableBytes { try? file.read(into: $0, at: 0) }
        return SlotFileHeader(words: words)
    }

    /// Refuses what is not this library's to write again.
    func check(_ path: String) throws(HandlerError) {
        // Zero: empty, or its writer died before it was done.
        guard words[0] == Self.mark || words[0] == 0 else { throw SlotFileErrors.foreign(path) }
        guard words[1] <= Self.version else { throw SlotFileErrors.newer(path) }
    }

    /// This boot as two words; zeros where it has no id, which costs the protection above.
    private static func boot() -> [Int64] {
        guard let id = ThisProcess.bootID() else { return [0, 0] }
        return [id.prefix(16), id.suffix(16)].map { Int64(bitPattern: UInt64($0, radix: 16) ?? 0) }
    }
}
