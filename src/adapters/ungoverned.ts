/** How adapters treat tools that make calls that they cannot govern. */

/** Settings of the adapters that can meet such tools. */
export interface UngovernedSettings {
  /**
   * Names of tools and MCP servers that are allowed although they make calls that the adapter does not govern, such as an agent inside a tool
   * whose own tools are governed elsewhere. Default: none, and the adapter refuses all of them.
   */
  readonly ungoverned?: ReadonlyArray<string>
}

/** The reason of a refusal, for the developer or the model. */
export const describeUngoverned = (...names: ReadonlyArray<string>): string =>
  `Not executed: ${names.map((name) => `"${name}"`).join(", ")} can make calls that Countersign does not govern. ` +
  "Govern these calls, or list the names in the adapter's option `ungoverned`."
