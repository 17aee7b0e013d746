import { Effect } from "effect"
import { Param, Primitive } from "effect/cli"

type PathKind = "file" | "directory"

/** A path as it was written. `Primitive.Path` resolves it, which makes a file named `-` of the `-` for standard input. */
const pathText = (kind: PathKind): Primitive.Primitive<string> =>
  Object.assign(Primitive.Path(kind), { parse: (text: string) => Effect.succeed(text) })

/** A flag with a path, which shells complete. */
export const pathFlag = (name: string, kind: PathKind = "file") =>
  Param.makeSingle({ kind: Param.flagKind, name, primitiveType: pathText(kind), typeName: kind })

/** An argument with the path of a file, which shells complete. */
export const fileArgument = (name: string) =>
  Param.makeSingle({ kind: Param.argumentKind, name, primitiveType: pathText("file"), typeName: "file" })
