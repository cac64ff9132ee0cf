extension Element {
    // MARK: Attributes

    /// The value of an attribute.
    ///
    /// Setting replaces the value in place or appends the attribute; setting nil removes it.
    ///
    /// - Parameters:
    ///   - attribute: The local name; without a namespace also `xml:` and a name for the namespace of XML.
    ///   - namespace: The namespace name; nil for none.
    public subscript(attribute: String, namespace namespace: String? = nil) -> ForeignText? {
        get {
            let (name, namespace) = Attribute.expanded(ForeignText(attribute), namespace)
            return attributes.first { $0.name == name && $0.namespace == namespace }?.value
        }
        set {
            let (name, namespace) = Attribute.expanded(ForeignText(attribute), namespace)
            set(newValue, name: name, namespace: namespace)
        }
    }

    private mutating func set(_ value: ForeignText?, name: ForeignText, namespace: ForeignText?) {
        let index = attributes.firstIndex { $0.name == name && $0.namespace == namespace }
        switch (index, value) {
        case (let index?, let value?): attributes[index].value = value
        case (let index?, nil): attributes.remove(at: index)
        case (nil, let value?):
            attributes.append(Attribute(rawName: name, namespace: namespace, value: value))
        case (nil, nil): break
        }
    }

    // MARK: Children

    /// Returns whether this element has this name in this namespace.
    ///
    /// - Parameters:
    ///   - name: The local name.
    ///   - namespace: The namespace name, empty for none.
    /// - Returns: Whether both are equal.
    public func has(name: some TextConvertible, namespace: some TextConvertible) -> Bool {
        self.name == name.foreignText && self.namespace == namespace.foreignText
    }

    /// Returns the first child element with this name in this namespace. Both must be equal.
    ///
    /// ```swift
    /// let items = iq.element.child("query", "jabber:iq:roster")?.children("item", "jabber:iq:roster") ?? []
    /// ```
    ///
    /// - Parameters:
    ///   - name: The local name.
    ///   - namespace: The namespace name, empty for none.
    /// - Returns: The element; nil when there is none. Children of children are not looked at.
    public func child(_ name: some TextConvertible, _ namespace: some TextConvertible) -> Element? {
        let (name, namespace) = (name.foreignText, namespace.foreignText)
        for case .element(let child) in children where child.has(name: name, namespace: namespace) {
            return child
        }
        return nil
    }

    /// Returns all child elements with this name in this namespace, in order.
    ///
    /// - Parameters:
    ///   - name: The local name.
    ///   - namespace: The namespace name, empty for none.
    /// - Returns: The elements; children of children are not among them.
    public func children(_ name: some TextConvertible, _ namespace: some TextConvertible) -> [Element] {
        let (name, namespace) = (name.foreignText, namespace.foreignText)
        return elements.filter { $0.has(name: name, namespace: namespace) }
    }

    /// All child elements, in order.
    public var elements: [Element] {
        children.compactMap { if case .element(let child) = $0 { child } else { nil } }
    }

    /// The first child element.
    package var firstElement: Element? {
        for case .element(let child) in children { return child }
        return nil
    }

    /// The character data directly inside this element, joined. Text of its children is not part of it.
    public var text: ForeignText {
        if children.count == 1, case .text(let only) = children[0] { return only }
        var joined = ""
        for case .text(let piece) in children { joined += piece.string }
        return ForeignText(joined)
    }

    // MARK: Building

    /// Appends a child element.
    ///
    /// - Parameter child: The element to append.
    public mutating func append(_ child: Element) { children.append(.element(child)) }

    /// Appends character data, joined with a text node at the end. Empty text does nothing.
    ///
    /// - Parameter text: The characters, unescaped.
    package mutating func append(text: some TextConvertible) {
        let text = text.foreignText
        if text.isEmpty { return }
        if case .text(let last) = children.last {
            children[children.count - 1] = .text(ForeignText(last.string + text.string))
        } else {
            children.append(.text(text))
        }
    }

    /// This element with one more child, for building in one expression.
    ///
    /// - Parameter child: The element to append.
    /// - Returns: A copy with the child.
    package func appending(_ child: Element) -> Element {
        var copy = self
        copy.append(child)
        return copy
    }

    // MARK: Text form

    /// Returns the element as complete XML text, with all namespace declarations that it needs.
    ///
    /// - Parameter defaultNamespace: The namespace that is already the default at the text's place.
    /// - Returns: One element; `Element(parsing:defaultNamespace:limits:)` reads it back.
    public func serialized(defaultNamespace: any TextConvertible = "") -> String {
        String(decoding: Serializer(standaloneIn: defaultNamespace).bytes(self), as: UTF8.self)
    }
}

extension Element: CustomStringConvertible {
    /// The standalone XML form.
    public var description: String { serialized() }
}
