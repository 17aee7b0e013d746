{
  description = "Countersign: feedback on task answers, telemetry export, and approvals with signed notifications";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      systems = [
        "x86_64-linux"
        "aarch64-linux"
        "aarch64-darwin"
      ];
      forEachSystem = f: nixpkgs.lib.genAttrs systems (system: f nixpkgs.legacyPackages.${system});
    in
    {
      packages = forEachSystem (pkgs: {
        default = pkgs.callPackage ./nix/package.nix { src = self; };
      });

      # `nix run`: the service on http://127.0.0.1:8080; `nix run . -- keys list`: any other command.
      apps = forEachSystem (pkgs: {
        default = {
          type = "app";
          program = toString (
            pkgs.writeShellScript "countersign" ''
              exec ${nixpkgs.lib.getExe self.packages.${pkgs.stdenv.hostPlatform.system}.default} "''${@:-serve}"
            ''
          );
        };
      });

      devShells = forEachSystem (pkgs: {
        default = pkgs.mkShell {
          # On NixOS the embedded PostgreSQL, a plain Linux binary, does not run: start this one and name it in
          # COUNTERSIGN_TEST_DATABASE_URL and DATABASE_URL.
          packages = [
            pkgs.nodejs_24
            pkgs.postgresql_18
          ];
        };
      });

      nixosModules.default = import ./nix/module.nix self;

      checks = forEachSystem (
        pkgs:
        {
          package = self.packages.${pkgs.stdenv.hostPlatform.system}.default;
        }
        // nixpkgs.lib.optionalAttrs pkgs.stdenv.hostPlatform.isLinux {
          service = pkgs.testers.runNixOSTest {
            name = "countersign";
            nodes.machine = {
              imports = [ self.nixosModules.default ];
              services.countersign.enable = true;
            };
            testScript = ''
              machine.wait_for_unit("countersign.service")
              machine.wait_for_open_port(8080)
              machine.succeed("curl --fail --silent http://127.0.0.1:8080/readyz")
              machine.succeed("systemctl restart countersign && curl --retry 10 --retry-connrefused --fail http://127.0.0.1:8080/readyz")
            '';
          };
        }
      );

      formatter = forEachSystem (pkgs: pkgs.nixfmt-rfc-style);
    };
}
