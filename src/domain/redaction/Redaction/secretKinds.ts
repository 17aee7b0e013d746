import { cloudKinds } from "./secretKinds/cloudKinds.ts"
import { commerceKinds } from "./secretKinds/commerceKinds.ts"
import { developerKinds } from "./secretKinds/developerKinds.ts"
import { modelKinds } from "./secretKinds/modelKinds.ts"
import { parseKinds, type SecretKind } from "./secretKinds/SecretKind.ts"

/** Every kind of secret with a mark of its vendor. */
export const secretKinds: ReadonlyArray<SecretKind> = [
  developerKinds,
  cloudKinds,
  modelKinds,
  commerceKinds
].flatMap(parseKinds)
