/** The result of `compareSources`. */
export interface Comparison {
  readonly contents: string
  readonly metadata: string | undefined
  readonly isFresh: boolean
}

export const filesBelow: (folder: string) => ReadonlyArray<string>

export const compareSources: (root: string, files: ReadonlyArray<string>, stampFile: string) => Comparison

export const writeStamp: (file: string, comparison: Pick<Comparison, "contents" | "metadata">) => void
