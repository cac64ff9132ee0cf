/// Text on which Swift's own comparing of strings spends quadratic time.
package enum HostileText {
    /// Returns combining marks of four classes, in an order that normalization changes, that fill the bytes.
    ///
    /// A million bytes of them cost `String`'s `==` more than two minutes.
    package static func marks(_ bytes: Int) -> String {
        let marks: [Unicode.Scalar] = ["\u{301}", "\u{345}", "\u{323}", "\u{327}"]  // Two bytes each.
        var text = String.UnicodeScalarView()
        if bytes % 2 == 1 { text.append("a") }
        for index in 0..<bytes / 2 { text.append(marks[index % marks.count]) }
        return String(text)
    }
}
