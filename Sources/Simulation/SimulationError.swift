/// An error of a simulation or its app server, as a sentence for its user.
package struct SimulationError: Error, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}
