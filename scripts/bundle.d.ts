import type { BuildOptions } from "esbuild"

export const bundleOptions: BuildOptions

export const libraryOptions: (entries: Readonly<Record<string, string>>) => BuildOptions
