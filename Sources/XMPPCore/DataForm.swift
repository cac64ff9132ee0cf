/// A data form: fields with names and values.
///
/// ```swift
/// let query = DataForm(.submit, type: Namespaces.mam, [.init("with", "juliet@capulet.example")])
/// ```
///
/// Source: XEP-0004, XEP-0068.
public struct DataForm: Hashable, Sendable {
    /// The type of a form (XEP-0004 section 3.1).
    public enum Kind: String, Hashable, Sendable {
        /// The requester canceled the form.
        case cancel
        /// To be filled in.
        case form
        /// Results of a search.
        case result
        /// Filled in.
        case submit
    }

    /// A field of a form.
    ///
    /// ```swift
    /// let field = DataForm.Field("pubsub#access_model", "open")
    /// ```
    public struct Field: Hashable, Sendable {
        /// The name of the field; nil for fixed text.
        public var name: ForeignText?
        /// The kind of its value, such as `hidden` or `boolean`. Nil where that goes without saying.
        public var type: ForeignText?
        /// The label that users see.
        public var label: ForeignText?
        /// Its values, in order.
        public var values: [ForeignText]

        /// Makes a field.
        ///
        /// - Parameters:
        ///   - name: What it is called.
        ///   - values: Its values, in order.
        ///   - type: The kind of its value, such as `hidden`; nil where that goes without saying.
        public init(
            _ name: any TextConvertible, _ values: any TextConvertible..., type: (any TextConvertible)? = nil
        ) {
            self.init(name, values: values, type: type)
        }

        /// Makes a field with a list of values.
        ///
        /// - Parameters:
        ///   - name: What it is called.
        ///   - values: Its values, in order; none for a field that is there and says nothing.
        ///   - type: The kind of its value, such as `list-multi`; nil where that goes without saying.
        package init(
            _ name: any TextConvertible, values: [any TextConvertible], type: (any TextConvertible)? = nil
        ) {
            self.name = name.foreignText
            self.values = values.map(\.foreignText)
            self.type = type?.foreignText
        }
    }

    /// The type of the form.
    public var kind: Kind
    /// The fields, in order.
    public var fields: [Field]

    /// Makes a form.
    ///
    /// - Parameters:
    ///   - kind: What it is for.
    ///   - type: Its `FORM_TYPE` (XEP-0068), which becomes the first field; nil for none.
    ///   - fields: Its fields.
    public init(_ kind: Kind, type: (any TextConvertible)? = nil, _ fields: [Field] = []) {
        self.kind = kind
        self.fields = (type.map { [Field("FORM_TYPE", $0, type: "hidden")] } ?? []) + fields
    }

    /// Reads a form; nil when the element is none.
    ///
    /// - Parameter element: `<x/>` in `jabber:x:data`. An unknown type reads as a form to be filled in.
    public init?(_ element: Element) {
        guard element.has(name: "x", namespace: Namespaces.dataForms) else { return nil }
        kind = element["type"].flatMap { Kind($0) } ?? .form
        fields = element.children("field", Namespaces.dataForms).map { field in
            var read = Field("", values: field.children("value", Namespaces.dataForms).map(\.text))
            (read.name, read.type, read.label) = (field["var"], field["type"], field["label"])
            return read
        }
    }

    /// The form as XML.
    public var element: Element {
        Element(
            "x", namespace: Namespaces.dataForms, attributes: ["type": kind.rawValue],
            children: fields.map { field in
                Element(
                    "field", namespace: Namespaces.dataForms,
                    attributes: ["var": field.name, "type": field.type],
                    children: field.values.map {
                        Element("value", namespace: Namespaces.dataForms, text: $0)
                    })
            })
    }

    /// The form's `FORM_TYPE`.
    package var formType: ForeignText? { self["FORM_TYPE"] }

    /// The first value of a field. Nil when there is no such field, or it has none.
    ///
    /// Setting replaces the field's values or appends the field; nil removes it.
    ///
    /// - Parameter name: The field's name, as `var` says it.
    public subscript(name: String) -> ForeignText? {
        get { fields.first { $0.name == name }?.values.first }
        set {
            let index = fields.firstIndex { $0.name == name }
            switch (index, newValue) {
            case (let index?, let value?): fields[index].values = [value]
            case (let index?, nil): fields.remove(at: index)
            case (nil, let value?): fields.append(Field(name, value))
            case (nil, nil): break
            }
        }
    }
}
