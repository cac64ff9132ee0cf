struct InspectCommand { init(_ w: [String]) throws {}; func run() throws -> Int32 { 0 } }
