/// Reads directions from an input, from its front to its end; zeros behind that.
struct Bytes {
    private(set) var rest: ArraySlice<UInt8>

    init(_ input: [UInt8]) { rest = input[...] }

    var isEmpty: Bool { rest.isEmpty }

    mutating func byte() -> UInt8 { rest.popFirst() ?? 0 }

    mutating func number(below limit: Int) -> Int {
        let value = Int(byte()) << 8 | Int(byte())
        return limit > 0 ? value % limit : 0
    }

    mutating func integer() -> Int64 { (0..<8).reduce(0) { value, _ in value << 8 | Int64(byte()) } }

    mutating func take(_ count: Int) -> [UInt8] {
        let taken = Array(rest.prefix(count))
        rest = rest.dropFirst(count)
        return taken
    }
}

extension [UInt8] {
    /// Changes, inserts, removes or cuts, as the rest of the directions says.
    func edited(by directions: inout Bytes) -> [UInt8] {
        var edited = self
        while !directions.isEmpty {
            let kind = directions.byte()
            let place = directions.number(below: edited.count + 1)
            let value = directions.byte()
            switch kind % 4 {
            case 0 where place < edited.count: edited[place] = value
            case 1: edited.insert(value, at: place)
            case 2 where place < edited.count: edited.remove(at: place)
            case 3: edited.removeSubrange(place...)
            default: break
            }
        }
        return edited
    }
}
