/// The output of values as JSON.
final class PlainOutput {
    /// The object or other value that is being written; those around it wait on the stack.
    private struct Frame {
        /// Distinguishes the containers of this value from all others.
        var number = 0
        var depth = 0
        var start = 0
        var firstMember = 0
        var isStarted = false
        var isObject = false
        var isSorted = true
    }

    // Nothing is called while one of these changes; checks for it would take a tenth of the time.
    @exclusivity(unchecked) private var buffer = UnsafeMutableRawBufferPointer.allocate(
        byteCount: 1024, alignment: 1)
    @exclusivity(unchecked) private var count = 0
    @exclusivity(unchecked) private var frame = Frame()
    @exclusivity(unchecked) private var lastNumber = 0
    /// Of the objects that are being written, each with its names in ascending order; a value without its end yet.
    @exclusivity(unchecked) private var members: [PlainMember] = []
    /// False once something was asked that only Foundation does, even if the one who asked went on without it.
    private var isPlain = true

    init() { members.reserveCapacity(16) }

    deinit { buffer.deallocate() }

    /// The written object, if Foundation would have written the same.
    var object: [UInt8]? { isPlain && bytes.first == UInt8(ascii: "{") ? [UInt8](bytes) : nil }

    func refuse() -> NotPlain {
        isPlain = false
        return NotPlain()
    }

    // MARK: Values

    func write<T: Encodable>(_ value: T) throws {
        if T.self == String.self { return try write(same(value) as String) }
        if T.self == Bool.self { return append(literal: same(value) as Bool ? "true" : "false") }
        if T.self == Int.self { return write(integer: same(value) as Int) }
        if T.self == Int32.self { return write(integer: same(value) as Int32) }
        if T.self == Int64.self { return write(integer: same(value) as Int64) }
        if T.self == UInt.self { return write(integer: same(value) as UInt) }
        if T.self == UInt8.self { return write(integer: same(value) as UInt8) }
        if T.self == UInt32.self { return write(integer: same(value) as UInt32) }
        if T.self == UInt64.self { return write(integer: same(value) as UInt64) }
        if T.self == Double.self { return try write(same(value) as Double) }
        guard !PlainJSON.isSpecial(T.self), frame.depth < PlainJSON.maximumDepth else { throw refuse() }
        let outer = frame
        lastNumber += 1
        frame = Frame(number: lastNumber, depth: outer.depth + 1, start: count, firstMember: members.count)
        do {
            try value.encode(to: PlainEncoder(output: self, frame: lastNumber, type: T.self))
        } catch { throw refuse() }
        if frame.isObject || !frame.isStarted { endObject() }
        frame = outer
    }

    /// Gives a value the name of its own type in generic code, where the caller has compared the two.
    private func same<T, U>(_ value: T) -> U { unsafeBitCast(value, to: U.self) }

    private func write(_ text: String) throws {
        append(literal: "\"")
        var text = text
        try text.withUTF8 { utf8 in
            let text = UnsafeRawBufferPointer(utf8)
            var index = 0
            while true {
                let length = text.unescaped(from: index)
                append(text.part(index..<index + length))
                index += length
                guard index < text.count else { break }
                guard let escape = PlainJSON.escapes.first(where: { $0.byte == text[index] }) else {
                    throw refuse()
                }
                withUnsafeBytes(of: (UInt8(ascii: "\\"), escape.letter)) { append($0) }
                index += 1
            }
        }
        append(literal: "\"")
    }

    private func write<I: FixedWidthInteger>(integer: I) {
        reserve(20)
        if integer < 0 { append(literal: "-") }
        let start = count
        var rest = integer.magnitude
        repeat {
            buffer[count] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
            count += 1
            rest /= 10
        } while rest > 0
        buffer[start..<count].reverse()
    }

    private func write(_ number: Double) throws {
        guard number.isFinite else { throw refuse() }
        append(PlainJSON.text(number))
    }

    func writeNull() { append(literal: "null") }

    func write(object: [UInt8]) throws {
        try object.withUnsafeBytes { object in
            guard let _ = try? PlainDocument(object) else { throw refuse() }
            append(object)
        }
    }

    // MARK: Objects

    /// Makes the value of a frame an object or another one. It becomes that once; a type that asks twice merges the
    /// two, which is left to Foundation.
    func start(object isObject: Bool, in number: Int) {
        guard frame.number == number, !frame.isStarted else {
            _ = refuse()
            return
        }
        frame.isStarted = true
        frame.isObject = isObject
        if isObject { append(literal: "{") }
    }

    /// Writes a name; its value and ``endMember(_:)`` come next.
    func startMember(_ name: String, in number: Int) throws -> PlainMember {
        guard frame.number == number else { throw refuse() }
        append(literal: members.count > frame.firstMember ? ",\"" : "\"")
        let start = count
        append(name)
        let place = start..<count
        // An escaped name is sorted by what it means.
        guard bytes.part(place).unescaped(from: 0) == place.count else { throw refuse() }
        append(literal: "\":")
        return PlainMember(name: place, value: count..<count)
    }

    func endMember(_ member: PlainMember) throws {
        var index = members.count
        members.append(PlainMember(name: member.name, value: member.value.lowerBound..<count))
        while index > frame.firstMember {
            let order = bytes.part(members[index - 1].name).order(to: bytes.part(member.name))
            // One name twice: the later value counts, which is left to Foundation.
            if order == 0 { throw refuse() }
            if order < 0 { break }
            members.swapAt(index - 1, index)
            frame.isSorted = false
            index -= 1
        }
    }

    private func endObject() {
        // A type that writes nothing is an empty object.
        if !frame.isStarted { append(literal: "{") }
        if !frame.isSorted { sortMembers() }
        members.removeLast(members.count - frame.firstMember)
        append(literal: "}")
    }

    /// Writes the members again in ascending order, after the existing ones, and moves them to their place.
    private func sortMembers() {
        let old = frame.start + 1..<count
        // Before anything is copied out of the buffer into itself: it must not move then.
        reserve(old.count)
        for index in frame.firstMember..<members.count {
            if index > frame.firstMember { append(literal: ",") }
            append(bytes.part(members[index].name.lowerBound - 1..<members[index].value.upperBound))
        }
        UnsafeMutableRawBufferPointer(rebasing: buffer[old]).copyMemory(
            from: bytes.part(old.upperBound..<count))
        count = old.upperBound
    }

    // MARK: Bytes

    private var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: buffer[..<count]) }

    @inline(__always) private func reserve(_ more: Int) {
        if count + more > buffer.count { grow(more) }
    }

    private func grow(_ more: Int) {
        let larger = UnsafeMutableRawBufferPointer.allocate(byteCount: (count + more) * 2, alignment: 1)
        larger.copyMemory(from: bytes)
        buffer.deallocate()
        buffer = larger
    }

    private func append(_ more: UnsafeRawBufferPointer) {
        reserve(more.count)
        UnsafeMutableRawBufferPointer(rebasing: buffer[count...]).copyMemory(from: more)
        count += more.count
    }

    private func append(_ text: String) {
        var text = text
        text.withUTF8 { append(UnsafeRawBufferPointer($0)) }
    }

    private func append(literal text: StaticString) {
        append(UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }
}
