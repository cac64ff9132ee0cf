/// A file on a simulated disk: its content, and the part of it that survives a power loss.
struct DiskFile {
    /// The size of a page of the system's file cache, in bytes. A page is written whole; after a failed sync the whole page is
    /// lost.
    static let page = 4096

    /// The content that processes read.
    private(set) var content: [UInt8] = []
    /// The content that is certainly on the medium.
    private var durable: [UInt8] = []
    /// The changes since the last sync, oldest first.
    private var changes: [Change] = []
    /// Pages whose sync failed. The system considers them written: a later sync writes one only after another change of it.
    private var lost: Set<Int> = []
    /// Whether the file's name survives a power loss.
    private(set) var isNameDurable = false

    private enum Change {
        case write(offset: Int, bytes: [UInt8])
        case resize(Int)
    }

    /// Whether the whole content and the name survive a power loss.
    var isDurable: Bool { changes.isEmpty && lost.isEmpty && isNameDurable }

    mutating func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
        guard !bytes.isEmpty else { return }
        changes.append(.write(offset: offset, bytes: Array(bytes)))
        Self.write(bytes, at: offset, to: &content)
    }

    mutating func resize(to size: Int) {
        guard size != content.count else { return }
        changes.append(.resize(size))
        Self.resize(&content, to: size)
    }

    /// Changes one bit, as a failing medium does.
    ///
    /// - Parameter bit: The number of the bit within the content, counted from the lowest bit of the first byte.
    mutating func flip(bit: Int) {
        content[bit / 8] ^= 1 << UInt8(bit % 8)
        if bit / 8 < durable.count { durable[bit / 8] ^= 1 << UInt8(bit % 8) }
    }

    // MARK: Sync

    mutating func sync() {
        isNameDurable = true
        guard !changes.isEmpty else { return }
        Self.resize(&durable, to: content.count)
        for range in changedRanges {
            // The system writes whole pages, so this also writes bytes of the page whose earlier sync failed.
            let range =
                lost.isEmpty
                ? range : Self.pages(range).lowerBound * Self.page..<Self.pages(range).upperBound * Self.page
            let known = range.clamped(to: 0..<content.count)
            durable.replaceSubrange(known, with: content[known])
            if !lost.isEmpty { lost.subtract(Self.pages(range)) }
        }
        changes.removeAll()
    }

    /// Fails to sync: a power loss may lose the changed pages, and the next sync succeeds without them.
    mutating func failSync() {
        for range in changedRanges { lost.formUnion(Self.pages(range)) }
        changes.removeAll()
    }

    /// The ranges that were written since the last sync and still lie within the file.
    private var changedRanges: [Range<Int>] {
        changes.compactMap { change in
            guard case .write(let offset, let bytes) = change else { return nil }
            let range = (offset..<offset + bytes.count).clamped(to: 0..<content.count)
            return range.isEmpty ? nil : range
        }
    }

    // MARK: Loss of power

    /// Keeps the synced bytes and a random part of the later changes.
    ///
    /// A sector may have any number of its unsynced writes, always the oldest ones.
    ///
    /// - Parameter sector: The number of bytes that the medium writes completely or not at all.
    /// - Returns: False when even the name is lost.
    mutating func losePower(sector: Int, using random: inout some RandomNumberGenerator) -> Bool {
        if isDurable { return true }
        guard isNameDurable || Bool.random(using: &random) else { return false }
        var result = durable
        var size = durable.count
        // The extremes come often: all changes had been written, or none.
        let share = [0, 1, Double.random(in: 0...1, using: &random)].randomElement(using: &random) ?? 0
        var kept: [Int: Int] = [:]
        var count: [Int: Int] = [:]
        for sector in sectors(of: sector) { count[sector, default: 0] += 1 }
        for (number, writes) in count.sorted(by: { $0.key < $1.key }) {
            kept[number] = (0..<writes).reduce(0) { total, _ in
                total + (Double.random(in: 0..<1, using: &random) < share ? 1 : 0)
            }
        }
        for change in changes {
            switch change {
            case .resize(let new):
                if Double.random(in: 0..<1, using: &random) < share { size = new }
            case .write(let offset, let bytes):
                Self.split(offset, bytes.count, by: sector) { number, range in
                    guard let left = kept[number], left > 0 else { return }
                    kept[number] = left - 1
                    bytes.withUnsafeBytes { all in
                        let piece = UnsafeRawBufferPointer(
                            rebasing: all[range.lowerBound - offset..<range.upperBound - offset])
                        Self.write(piece, at: range.lowerBound, to: &result)
                    }
                    size = max(size, range.upperBound)
                }
            }
        }
        for number in lost.sorted() where Bool.random(using: &random) {
            let range = (number * Self.page..<(number + 1) * Self.page).clamped(to: 0..<content.count)
            content.withUnsafeBytes {
                Self.write(UnsafeRawBufferPointer(rebasing: $0[range]), at: range.lowerBound, to: &result)
            }
            size = max(size, range.upperBound)
        }
        Self.resize(&result, to: size)
        self = DiskFile(content: result)
        return true
    }

    init() {}

    private init(content: [UInt8]) {
        (self.content, durable, isNameDurable) = (content, content, true)
    }

    /// The sectors of all unsynced writes, one entry for each write to a sector.
    private func sectors(of size: Int) -> [Int] {
        var result: [Int] = []
        for case .write(let offset, let bytes) in changes {
            Self.split(offset, bytes.count, by: size) { number, _ in result.append(number) }
        }
        return result
    }

    /// Splits a write at the borders of sectors.
    private static func split(
        _ offset: Int, _ count: Int, by sector: Int, _ body: (_ number: Int, _ range: Range<Int>) -> Void
    ) {
        var start = offset
        while start < offset + count {
            let number = start / sector
            let end = min((number + 1) * sector, offset + count)
            body(number, start..<end)
            start = end
        }
    }

    // MARK: Bytes

    private static func pages(_ range: Range<Int>) -> Range<Int> {
        range.lowerBound / page..<(range.upperBound + page - 1) / page
    }

    private static func resize(_ bytes: inout [UInt8], to size: Int) {
        if size < bytes.count {
            bytes.removeSubrange(size...)
        } else {
            // In large pieces: in a debug build, appending single bytes takes most of a world's time.
            while bytes.count < size { bytes += zeros.prefix(size - bytes.count) }
        }
    }

    private static let zeros = [UInt8](repeating: 0, count: 1 << 16)

    private static func write(_ new: UnsafeRawBufferPointer, at offset: Int, to bytes: inout [UInt8]) {
        if bytes.count < offset + new.count { resize(&bytes, to: offset + new.count) }
        bytes.withUnsafeMutableBytes {
            UnsafeMutableRawBufferPointer(rebasing: $0[offset..<offset + new.count]).copyMemory(from: new)
        }
    }
}
