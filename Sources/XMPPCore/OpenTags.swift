private import CXML2

extension TreeBuilder {
    /// The parts of a start tag beyond its element. The pointers lead into the dictionary of the libxml2 parser that read it.
    struct OpenTag {
        let name: UnsafePointer<UInt8>?
        let prefix: UnsafePointer<UInt8>?
        /// Namespaces that it declares.
        let declarationCount: Int
    }

    /// The source of the stream header and of the outermost open elements, while their libxml2 parser lives.
    struct OpenTags {
        private var tags: [OpenTag] = []
        /// Prefix and namespace of every declaration in them, one after the other.
        private var declarations: [UnsafePointer<UInt8>?] = []
        /// The first of them as they are read again, and where each ends: those that were read again before.
        private var written: (bytes: [UInt8], ends: [Int]) = ([], [])

        mutating func append(_ tag: OpenTag, _ pointers: UnsafePointer<UnsafePointer<UInt8>?>?) {
            tags.append(tag)
            guard let pointers, tag.declarationCount > 0 else { return }
            declarations += UnsafeBufferPointer(start: pointers, count: 2 * tag.declarationCount)
        }

        mutating func removeLast() {
            guard let tag = tags.popLast() else { return }
            declarations.removeLast(2 * tag.declarationCount)
            guard written.ends.count > tags.count else { return }
            written.ends.removeLast()
            written.bytes.removeSubrange((written.ends.last ?? 0)...)
        }

        /// Keeps the outermost ones only.
        mutating func keep(_ count: Int) {
            while tags.count > count { removeLast() }
        }

        /// Forgets the pointers into the dictionary: the tags are about to be read again.
        mutating func forgetPointers() {
            tags.removeAll(keepingCapacity: true)
            declarations.removeAll(keepingCapacity: true)
        }

        /// The start tags once more, with their namespaces and without their attributes.
        mutating func replay() -> [UInt8] {
            var used = 0
            for (index, tag) in tags.enumerated() {
                if index >= written.ends.count {
                    write(tag, declarations[used...])
                    written.ends.append(written.bytes.count)
                }
                used += 2 * tag.declarationCount
            }
            return written.bytes
        }

        private mutating func write(_ tag: OpenTag, _ declarations: ArraySlice<UnsafePointer<UInt8>?>) {
            written.bytes += "<".utf8
            Self.append(tag.prefix, tag.name, to: &written.bytes)
            for index in 0..<tag.declarationCount {
                let pair = declarations.startIndex + 2 * index
                Self.append(declarations[pair], declaring: declarations[pair + 1], to: &written.bytes)
            }
            written.bytes += ">".utf8
        }

        private static func append(
            _ prefix: UnsafePointer<UInt8>?, _ name: UnsafePointer<UInt8>?, to bytes: inout [UInt8]
        ) {
            // As libxml2 read them, so that the end tags fit.
            if let prefix {
                bytes += Self.content(of: prefix)
                bytes.append(UInt8(ascii: ":"))
            }
            if let name { bytes += Self.content(of: name) }
        }

        private static func content(of string: UnsafePointer<UInt8>) -> UnsafeBufferPointer<UInt8> {
            UnsafeBufferPointer(start: string, count: Int(xmlStrlen(string)))
        }

        private static func append(
            _ prefix: UnsafePointer<UInt8>?, declaring namespace: UnsafePointer<UInt8>?,
            to bytes: inout [UInt8]
        ) {
            bytes += " xmlns".utf8
            if let prefix {
                bytes.append(UInt8(ascii: ":"))
                bytes += Self.content(of: prefix)
            }
            bytes += "='".utf8
            if let namespace {
                Escaping.append(attribute: ForeignText(String(cString: namespace)), to: &bytes)
            }
            bytes += "'".utf8
        }

        /// The namespace that the stream header declares for a prefix; nil when it declares none.
        ///
        /// - Parameter prefix: The prefix; empty for the default namespace.
        func namespace(inheritedWith prefix: [UInt8]) -> ForeignText? {
            for index in 0..<(tags.first?.declarationCount ?? 0) {
                let declared = declarations[2 * index]
                guard declared.map({ Self.content(of: $0).elementsEqual(prefix) }) ?? prefix.isEmpty else {
                    continue
                }
                return declarations[2 * index + 1].map { ForeignText(decoding: Self.content(of: $0)) } ?? ""
            }
            return nil
        }
    }
}

/// Lists with independent members: an unreadable one costs only itself.
enum MemberList {
    /// No list lies deeper, the stanza counted.
    static let depth = 3

    /// Returns the index of such a list in the open elements, outermost first.
    static func index(in open: [Element]) -> Int? {
        guard let stanza = open.first, Stanza.isStanza(stanza) else { return nil }
        if open.count > 1, isQuery(open[1]) { return 1 }
        if open.count > 2, isPubSub(open[1], open[2]) { return 2 }
        return nil
    }

    private static func isQuery(_ element: Element) -> Bool {
        element.has(name: "query", namespace: Namespaces.roster)
            || element.has(name: "query", namespace: Namespaces.discoItems)
            || element.has(name: "blocklist", namespace: Namespaces.blocking)
    }

    private static func isPubSub(_ parent: Element, _ list: Element) -> Bool {
        guard list.name == "items", list.namespace == parent.namespace else { return false }
        return parent.has(name: "pubsub", namespace: Namespaces.pubsub)
            || parent.has(name: "event", namespace: Namespaces.pubsubEvent)
    }
}
