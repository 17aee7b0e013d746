/** The version of this package, equal to the one in `package.json`. */
export const VERSION = "0.1.0"
