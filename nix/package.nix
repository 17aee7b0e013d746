{
  lib,
  buildNpmPackage,
  importNpmLock,
  makeWrapper,
  nodejs_24,
  src,
}:
let
  manifest = lib.importJSON ../package.json;
  lockfile = lib.importJSON ../package-lock.json;

  # The lockfile names no registry; Nix fetches each package by its integrity from npm's own. What has no integrity belongs
  # to platforms that the tools of development alone are made for.
  nameOf = path: lib.last (lib.splitString "node_modules/" path);
  resolve =
    path: entry:
    let
      name = nameOf path;
    in
    entry
    // {
      resolved = "https://registry.npmjs.org/${name}/-/${baseNameOf name}-${entry.version}.tgz";
    };
  packageLock = lockfile // {
    packages = lib.mapAttrs resolve (lib.filterAttrs (_: entry: entry ? integrity) lockfile.packages) // {
      "" = lockfile.packages."";
    };
  };
in
buildNpmPackage {
  pname = manifest.name;
  inherit (manifest) version;
  inherit src;

  nodejs = nodejs_24;
  npmDeps = importNpmLock {
    npmRoot = ../.;
    package = manifest;
    inherit packageLock;
  };
  npmConfigHook = importNpmLock.npmConfigHook;
  npmFlags = [ "--ignore-scripts" ];
  nativeBuildInputs = [ makeWrapper ];

  installPhase = ''
    runHook preInstall
    rm -r dist/packages
    npm prune --omit=dev --ignore-scripts --offline
    mkdir -p $out/lib/countersign
    cp -r dist node_modules package.json LICENSE THIRD_PARTY_LICENSES $out/lib/countersign/
    makeWrapper ${lib.getExe nodejs_24} $out/bin/countersign --add-flags "--max-semi-space-size=8 --initial-old-space-size=48 --heap-growing-percent=100" --add-flags $out/lib/countersign/dist/main.js
    runHook postInstall
  '';

  meta = {
    inherit (manifest) description;
    license = lib.licenses.mit;
    mainProgram = "countersign";
    platforms = lib.platforms.linux ++ lib.platforms.darwin;
  };
}
