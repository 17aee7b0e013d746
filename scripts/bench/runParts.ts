/** Runs the named parts of a benchmark one after another; without a name, all of them. */
export const runParts =
  (parts: Readonly<Record<string, () => Promise<unknown>>>) =>
  async (names: ReadonlyArray<string>): Promise<void> => {
    for (const name of names.length === 0 ? Object.keys(parts) : names) {
      const part = parts[name]
      if (part === undefined)
        throw new Error(`Unknown part ${name}. Available: ${Object.keys(parts).join(", ")}`)
      await part()
    }
  }
