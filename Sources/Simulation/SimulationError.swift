/// Why a simulation or its app server cannot go on, as a sentence for the person who runs it.
package struct SimulationError: Error, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}
