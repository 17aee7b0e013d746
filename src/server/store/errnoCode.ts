/** The error code of a failed system call (`ENOENT`), or `undefined` for any other thrown value. */
export const errnoCode = (cause: unknown): string | undefined =>
  cause instanceof Error && "code" in cause && typeof cause.code === "string" ? cause.code : undefined
