export const nodeFlags: ReadonlyArray<string>
