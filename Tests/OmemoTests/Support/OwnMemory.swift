import Glibc

/// Secrets that a test looks for in the memory of its own process, and does not hold in the clear meanwhile.
struct SoughtSecrets {
    /// All of one size.
    private var masked: [[UInt8]] = []
    private static let mask: UInt8 = 0x5A
    private static let size = 16

    /// Looks for the first 16 bytes of these, too.
    mutating func add(_ bytes: [UInt8]) { masked.append(bytes.prefix(Self.size).map { $0 ^ Self.mask }) }

    /// How often they stand in memory that can be written.
    func occurrences() -> Int {
        let needles = UnsafeMutableRawBufferPointer.allocate(
            byteCount: masked.count * Self.size, alignment: 16)
        let chunk = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 16)
        defer {
            needles.initializeMemory(as: UInt8.self, repeating: 0)
            needles.deallocate()
            chunk.deallocate()
        }
        for (index, byte) in masked.joined().enumerated() { needles[index] = byte ^ Self.mask }
        let own = [needles, chunk].map { space in
            let start = UInt64(UInt(bitPattern: space.baseAddress))
            return start..<start + UInt64(space.count)
        }
        let memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC)
        defer { close(memory) }
        var found = 0
        for region in Self.writableRegions() {
            var place = region.lowerBound
            while place < region.upperBound {
                let got = pread(
                    memory, chunk.baseAddress, min(chunk.count, Int(region.upperBound - place)), off_t(place))
                guard got > 0 else { break }
                found += Self.offsets(of: needles, in: chunk, got).count { offset in
                    !own.contains { $0.contains(place + UInt64(offset)) }
                }
                let next = place + UInt64(got)
                // What stands across two pieces is found in the second one.
                place = next < region.upperBound ? next - UInt64(min(got - 1, Self.size - 1)) : next
            }
            chunk.initializeMemory(as: UInt8.self, repeating: 0)
        }
        return found
    }

    private static func offsets(
        of needles: UnsafeMutableRawBufferPointer, in space: UnsafeMutableRawBufferPointer, _ count: Int
    ) -> [Int] {
        guard let start = space.baseAddress, let keys = needles.baseAddress else { return [] }
        var offsets: [Int] = []
        for needle in stride(from: 0, to: needles.count, by: size) {
            var from = 0
            while from + size <= count,
                let hit = memchr(start + from, Int32(needles[needle]), count - from - size + 1)
            {
                let offset = UnsafeRawPointer(hit) - UnsafeRawPointer(start)
                if memcmp(hit, keys + needle, size) == 0 { offsets.append(offset) }
                from = offset + 1
            }
        }
        return offsets
    }

    private static func writableRegions() -> [Range<UInt64>] {
        var text = ""
        let file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC)
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: 1 << 16)
        while case let got = read(file, &bytes, bytes.count), got > 0 {
            text += String(decoding: bytes[..<got], as: UTF8.self)
        }
        return text.split(separator: "\n").compactMap { line in
            let words = line.split(separator: " ", maxSplits: 2)
            let ends = words[0].split(separator: "-").compactMap { UInt64($0, radix: 16) }
            return words[1].hasPrefix("rw") && ends.count == 2 ? ends[0]..<ends[1] : nil
        }
    }
}
