// Package config fills one struct of documented defaults from a YAML file, the environment and the command line.
//
// The struct is the whole description. A field's yaml tag gives the key, its desc tag the meaning and the unit, the value it
// holds before [Load] the default; nested structs are sections (or, tagged ",inline", part of the section around them):
//
//	type Config struct {
//		Server struct {
//			Address string `yaml:"address" desc:"host:port the RPCs are served on"`
//		} `yaml:"server"`
//	}
//
// makes the key server.address, which is set by, the later winning,
//
//	the default  <  server: {address: …} in the file  <  FLYTE_SERVER_ADDRESS=…  <  --server.address=…
//
// A section may have a desc too, for the help. Two more tags: enum:"a,b" names the values that are allowed, secret:"true" keeps a value out of everything that is printed.
//
// Nothing is guessed. An unknown key, an unknown variable with the prefix, a value of the wrong type or outside its bounds ends
// the start with an error that names the key and the place (file and line, variable, flag) it came from; all mistakes are
// reported at once. This is why the file is read as a YAML tree and not through viper, which folds keys to lower case and
// forgets where a value stood. Each value, whatever its source, passes through the same pflag.Value.
package config
