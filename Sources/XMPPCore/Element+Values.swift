// Attributes and texts of elements as values. Text of a peer that is no such value is an error, never another value.
extension Element {
    // MARK: Attributes

    /// Returns the value of an attribute that must be there.
    ///
    /// ```swift
    /// let contact = try item.value(of: "jid", as: JID.self)
    /// ```
    ///
    /// - Parameters:
    ///   - attribute: The local name, or `xml:` and a name for the namespace of XML.
    ///   - type: What it holds; left out where the context says it.
    /// - Returns: The value.
    /// - Throws: ``ElementValueError`` `missing` without the attribute, `malformed` when it holds something else.
    public func value<Value: ForeignValue>(
        of attribute: String, as type: Value.Type = Value.self
    ) throws(ElementValueError) -> Value {
        try read(self[attribute], .attribute(ForeignText(attribute)))
    }

    /// Returns the value of an attribute that may be missing.
    ///
    /// ```swift
    /// let width = try info.optionalValue(of: "width", as: Int.self)
    /// ```
    ///
    /// - Parameters:
    ///   - attribute: The local name, or `xml:` and a name for the namespace of XML.
    ///   - type: What it holds; left out where the context says it.
    /// - Returns: The value; nil without the attribute.
    /// - Throws: ``ElementValueError`` `malformed` when it holds something else.
    public func optionalValue<Value: ForeignValue>(
        of attribute: String, as type: Value.Type = Value.self
    ) throws(ElementValueError) -> Value? {
        guard let text = self[attribute] else { return nil }
        return try read(text, .attribute(ForeignText(attribute)))
    }

    // MARK: Text

    /// Returns the text of this element as a value.
    ///
    /// ```swift
    /// let priority = try child.value(as: Int8.self)
    /// ```
    ///
    /// - Parameter type: What it holds; left out where the context says it.
    /// - Returns: The value.
    /// - Throws: ``ElementValueError`` `malformed` when the text is something else.
    public func value<Value: ForeignValue>(as type: Value.Type = Value.self) throws(ElementValueError)
        -> Value
    {
        try read(text, .text)
    }

    // MARK: Paths

    /// Returns the value at the first place of a path, which must be there.
    ///
    /// ```swift
    /// let count = try fin.value(at: "{\(Namespaces.rsm)}set/count", as: UInt32.self)
    /// ```
    ///
    /// - Parameters:
    ///   - path: Place of the value; without an attribute at its end, in the text of the element.
    ///   - type: What it holds; left out where the context says it.
    /// - Returns: The value.
    /// - Throws: ``ElementValueError`` `missing` when nothing is at the path, `malformed` when something else is.
    public func value<Value: ForeignValue>(
        at path: ElementPath, as type: Value.Type = Value.self
    ) throws(ElementValueError) -> Value {
        try read(text(at: path), .path(ForeignText(path.description)))
    }

    /// Returns the value at the first place of a path, which may be missing.
    ///
    /// - Parameters:
    ///   - path: Place of the value; without an attribute at its end, in the text of the element.
    ///   - type: What it holds; left out where the context says it.
    /// - Returns: The value; nil when nothing is at the path.
    /// - Throws: ``ElementValueError`` `malformed` when something else is there.
    public func optionalValue<Value: ForeignValue>(
        at path: ElementPath, as type: Value.Type = Value.self
    ) throws(ElementValueError) -> Value? {
        guard let text = text(at: path) else { return nil }
        return try read(text, .path(ForeignText(path.description)))
    }

    /// Returns the values at every place of a path, in document order.
    ///
    /// ```swift
    /// let codes = try x.values(at: "status/@code", as: Int.self)
    /// ```
    ///
    /// - Parameters:
    ///   - path: Place of the values; without an attribute at its end, in the texts of the elements.
    ///   - type: What they hold; left out where the context says it.
    /// - Returns: The values; none when nothing is at the path.
    /// - Throws: ``ElementValueError`` `malformed` for the first text that is something else.
    public func values<Value: ForeignValue>(
        at path: ElementPath, as type: Value.Type = Value.self
    ) throws(ElementValueError) -> [Value] {
        var values: [Value] = []
        for text in texts(at: path) { values.append(try read(text, .path(ForeignText(path.description)))) }
        return values
    }

    private func read<Value: ForeignValue>(
        _ text: ForeignText?, _ place: ElementValueError.Place
    ) throws(ElementValueError) -> Value {
        guard let text, let value = Value(foreign: text) else {
            throw ElementValueError(self, place, text, Value.self)
        }
        return value
    }
}
