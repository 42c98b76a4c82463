"""Commands of the doctor that show what a store holds, and how two stores differ."""
