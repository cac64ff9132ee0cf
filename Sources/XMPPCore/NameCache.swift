/// Turns libxml2's names into Swift strings once per name instead of once per element.
///
/// libxml2 keeps every name, prefix and namespace of a parser in a dictionary, so that equal names are equal
/// pointers for as long as the parser lives. The cache maps those pointers; it has a fixed size and must be cleared
/// together with its parser.
struct NameCache {
    private struct Entry {
        var key: UnsafePointer<UInt8>?
        var name: ForeignText = ""
    }

    private static let size = 256
    private var entries = [Entry](repeating: Entry(), count: NameCache.size)

    /// The string at `pointer`, which must come from the parser's dictionary; empty for nil.
    mutating func string(_ pointer: UnsafePointer<UInt8>?) -> ForeignText {
        guard let pointer else { return "" }
        let address = UInt(bitPattern: pointer)
        let slot = Int((address ^ (address >> 8)) & UInt(Self.size - 1))
        if entries[slot].key == pointer { return entries[slot].name }
        let name = ForeignText(String(cString: pointer))
        entries[slot] = Entry(key: pointer, name: name)
        return name
    }

    /// Forgets all names.
    mutating func removeAll() {
        entries = [Entry](repeating: Entry(), count: Self.size)
    }
}
